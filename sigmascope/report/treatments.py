"""A model before and after a remedy, as text and as JSON."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text

from sigmascope.diagnosis import Treatment
from sigmascope.diagnosis.remedies import NormalisationEffect
from sigmascope.diagnosis.trainability import probability
from sigmascope.gate import printable
from sigmascope.records import Finding, Profile
from sigmascope.report.consoles import rendered
from sigmascope.report.forms import estimate_form
from sigmascope.report.numbers import compact, measured
from sigmascope.report.sparklines import sparkline

SHOWN = (  # what is shown of both, and which end of the network tells most
    ("participation ratio", "samples", -1),
    ("centred participation ratio", "samples", -1),
    ("matrix rank", "samples", -1),
    ("relative variation", "samples", -1),
    ("mean square", "samples", -1),
    ("adjoint norm", "", 0),
    ("NTK trace", "", 0),
)
ENDS = {-1: "last", 0: "first"}


def treatment_text(treatment: Treatment, *, colour: bool = False, width: int = 100) -> str:
    """The profile of the new model beside that of the old one, and the findings of both."""
    return rendered(_one(treatment, width), colour=colour, width=width)


def treatments_text(
    treatments: Sequence[Treatment],
    declined: Mapping[str, str],
    effect: NormalisationEffect | None = None,
    *,
    colour: bool = False,
    width: int = 100,
) -> str:
    """Every remedy that was tried, the best first; those that do not apply, with the reason.

    Args:
        treatments: In the order to show them.
        declined: Reasons by name of remedy.
        effect: What the model's own batch normalisers do.
        colour: Whether to colour it.
        width: Columns of the terminal.
    """
    return rendered(_all(treatments, declined, effect), colour=colour, width=width)


def treatment_form(treatment: Treatment) -> dict[str, Any]:
    """The same as strict JSON."""
    return {
        "remedy": treatment.remedy.name,
        "says": treatment.remedy.says,
        "source": treatment.remedy.source,
        "cured": list(treatment.cured),
        "new": list(treatment.new),
        "before": _side(treatment.before, treatment.found_before),
        "after": _side(treatment.after, treatment.found_after),
    }


def treatments_form(
    treatments: Sequence[Treatment],
    declined: Mapping[str, str],
    effect: NormalisationEffect | None = None,
) -> dict[str, Any]:
    """All that were tried, as strict JSON."""
    return {
        "schema": "sigmascope/treatments/1",
        "treatments": [treatment_form(t) for t in treatments],
        "declined": dict(declined),
        "normalisation": None
        if effect is None
        else {
            "count": effect.count,
            "as_is": estimate_form(effect.as_is),
            "uncentred": estimate_form(effect.uncentred),
            "removed": estimate_form(effect.removed),
        },
    }


def _one(treatment: Treatment, width: int) -> Iterator[RenderableType]:
    yield Text.assemble((treatment.remedy.name, "bold"), f"  {treatment.remedy.says}")
    yield Text(treatment.remedy.source, "dim")
    yield ""
    yield Text(f"Probability that plain training fits: {_chances(treatment)}")
    yield ""
    yield Text("Findings", "bold")
    yield _findings(treatment)
    yield ""
    yield Text("Before and after, over depth", "bold")
    yield _curves(treatment, width)
    yield ""
    yield Text("In your code", "bold")
    yield Text("from sigmascope import diagnosis")
    yield Text(f"model = diagnosis.remedies.remedy({treatment.remedy.name!r}).apply(model, batch)")


def _findings(treatment: Treatment) -> Table:
    grid = Table.grid(padding=(0, 2))
    after = {f.name: f.severity for f in treatment.found_after}
    for f in treatment.found_before:
        left = after.get(f.name)
        says = "cured" if left is None else f"still there, {left}"
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
    for quantity, form, end in SHOWN:
        sides = [_values(p, quantity, form) for p in (treatment.before, treatment.after)]
        if all(sides):
            lines = [sparkline(values, width=room) for values in sides]
            ends = [compact(values[end]) for values in sides]
            change = f"{ends[0]} → {ends[1]}"
            grid.add_row(
                Text(quantity), Text(lines[0]), Text(lines[1]), Text(ENDS[end], "dim"), change
            )
    return grid


def _all(
    treatments: Sequence[Treatment],
    declined: Mapping[str, str],
    effect: NormalisationEffect | None,
) -> Iterator[RenderableType]:
    yield Text("Remedies, each applied to a copy and measured again, the best first", "bold")
    grid = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for title in ("remedy", "fits", "last partic. ratio", "cured", "left or new"):
        grid.add_column(title, header_style="dim", overflow="fold")
    for t in treatments:
        ratios = [_values(p, "participation ratio", "samples")[-1:] for p in (t.before, t.after)]
        ends = " → ".join(compact(r[0]) if r else "–" for r in ratios)
        causes = {f.name for f in t.found_before if not f.follows}
        cured = "\n".join(name for name in t.cured if name in causes) or "–"
        left = "\n".join(f"{f.name} ({f.severity})" for f in t.found_after if not f.follows) or "–"
        grid.add_row(t.remedy.name, _chances(t), ends, cured, left)
    yield grid
    if declined:
        yield ""
        yield Text("Not applicable", "bold")
        why = Table.grid(padding=(0, 2))
        for name, reason in declined.items():
            why.add_row(Text(name), Text(printable(reason), "dim"))
        yield why
    if effect is not None:
        yield ""
        yield Text(
            f"The model's {effect.count} batch normalisers, switched: participation ratio at the "
            f"end {measured(effect.as_is)} as they are, {measured(effect.uncentred)} without "
            f"centring, {measured(effect.removed)} without them."
        )


def _chances(treatment: Treatment) -> str:
    """Probability of fitting, before and after."""
    found = [probability(p) for p in (treatment.before, treatment.after)]
    return " → ".join("–" if r is None else f"{r.estimate.value:.2f}" for r in found)


def _values(profile: Profile, quantity: str, form: str) -> list[float]:
    sites = {layer.site for layer in profile.layers}
    found = profile.series(quantity, form=form)
    return [r.estimate.value for r in found if r.site in sites]


def _side(profile: Profile, findings: tuple[Finding, ...]) -> dict[str, Any]:
    trains = probability(profile)
    curves = {quantity: _values(profile, quantity, form) for quantity, form, _ in SHOWN}
    return {
        "probability_of_fitting": None if trains is None else estimate_form(trains.estimate),
        "findings": [{"name": f.name, "site": f.site, "severity": f.severity} for f in findings],
        "curves": {quantity.replace(" ", "_"): v for quantity, v in curves.items() if v},
    }
