"""A model before and after a remedy."""

from collections.abc import Iterator

from rich.table import Table
from rich.text import Text

from sigmascope import quantities as q
from sigmascope.diagnosis import Treatment, remedies
from sigmascope.diagnosis.trainability import probability
from sigmascope.gate import printable
from sigmascope.report.results import CURVES, Trials, layer_values
from sigmascope.report.terminal.console import Part
from sigmascope.report.terminal.numbers import compact, measured
from sigmascope.report.terminal.screens import Screen, grid, parts, section
from sigmascope.report.terminal.sparklines import sparkline


@parts.register
def _treatment(treatment: Treatment, screen: Screen) -> Iterator[Part]:
    """The profile of the new model beside that of the old one, and the findings of both."""
    yield Text.assemble((treatment.remedy.name, "bold"), f"  {treatment.remedy.says}")
    yield Text(treatment.remedy.source, "dim")
    yield ""
    yield Text(f"Probability that plain training fits: {_chances(treatment)}")
    yield from section("Findings", _findings(treatment))
    yield from section("Before and after, over depth", _curves(treatment, screen.width))
    made = remedies.in_code(treatment.remedy)
    call = f"model = {made}.apply(model, batch)"
    if made:
        yield from section("In your code", Text("import sigmascope as ss"), Text(call))


def _findings(treatment: Treatment) -> Table:
    grid = Table.grid(padding=(0, 2))
    after = {f.name: f.severity for f in treatment.found_after}
    for f in treatment.found_before:
        left = after.get(f.name)
        gone = "cured" if f.name in treatment.cured else "not measured again"
        says = gone if left is None else f"still there, {left}"
        grid.add_row(Text(f.name), Text(f.severity), Text("→"), Text(says))
    for f in treatment.found_after:
        if f.name in treatment.new:
            grid.add_row(Text(f.name), Text("not there"), Text("→"), Text(f"new, {f.severity}"))
    if not grid.row_count:
        grid.add_row(Text("none before, none after"))
    return grid


def _curves(treatment: Treatment, width: int) -> Table:
    grid = Table.grid(padding=(0, 2))
    room = max(8, (width - 64) // 2)
    for quantity, form, end in CURVES:
        sides = [layer_values(p, quantity, form) for p in (treatment.before, treatment.after)]
        if all(sides):
            lines = [sparkline(values, width=room) for values in sides]
            ends = [compact(values[-1 if end == "last" else 0]) for values in sides]
            change = f"{ends[0]} → {ends[1]}"
            grid.add_row(Text(quantity), Text(lines[0]), Text(lines[1]), Text(end, "dim"), change)
    return grid


@parts.register
def _trials(found: Trials, _: Screen) -> Iterator[Part]:
    """Every remedy that was tried; those that do not apply, with the reason."""
    yield Text("Remedies, each applied to a copy and measured again, the best first", "bold")
    titles = ("remedy", "fits", "last partic. ratio", "cured", "left or new")
    table = grid(*titles, fold=True)
    for treatment in found.treatments:
        table.add_row(*_row(treatment))
    yield table
    if found.declined:
        why = Table.grid(padding=(0, 2))
        for name, reason in found.declined.items():
            why.add_row(Text(name), Text(printable(reason), "dim"))
        yield from section("Not applicable", why)
    if (effect := found.normalisation) is not None:
        yield ""
        yield Text(
            f"The model's {effect.count} batch normalisers, switched: participation ratio at the "
            f"end {measured(effect.as_is)} as they are, {measured(effect.uncentred)} without "
            f"centring, {measured(effect.removed)} without them."
        )


def _row(t: Treatment) -> tuple[str, ...]:
    ratios = [layer_values(p, q.PARTICIPATION_RATIO, "samples")[-1:] for p in (t.before, t.after)]
    ends = " → ".join(compact(r[0]) if r else "–" for r in ratios)
    causes = {f.name for f in t.found_before if not f.follows}
    cured = "\n".join(name for name in t.cured if name in causes) or "–"
    left = "\n".join(f"{f.name} ({f.severity})" for f in t.found_after if not f.follows) or "–"
    return t.remedy.name, _chances(t), ends, cured, left


def _chances(treatment: Treatment) -> str:
    """Probability of fitting, before and after."""
    found = [probability(p) for p in (treatment.before, treatment.after)]
    return " → ".join("–" if r is None else f"{r.estimate.value:.2f}" for r in found)
