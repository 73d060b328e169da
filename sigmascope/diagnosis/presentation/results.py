"""How profiles, diagnoses and trials of remedies look: text, JSON and rows."""

import math
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from types import MappingProxyType
from typing import Any, Final

from rich.table import Table
from rich.text import Text

from sigmascope.core import quantities as q
from sigmascope.core.encoding import encoded, schema_of
from sigmascope.core.guard import listed, printable, time_words
from sigmascope.core.quantities import EVERY, View
from sigmascope.core.records import (
    Change,
    Check,
    Estimate,
    Finding,
    Layer,
    Profile,
    Reading,
    Shown,
    Skipped,
    Verdict,
    changes,
)
from sigmascope.diagnosis import remedies
from sigmascope.diagnosis.compression import Compression, Truncation
from sigmascope.diagnosis.cures import Cure, Cures
from sigmascope.diagnosis.diagnoses import Diagnosis
from sigmascope.diagnosis.engine import judge
from sigmascope.diagnosis.layer_rates import LayerRates
from sigmascope.diagnosis.ranking import Ranked
from sigmascope.diagnosis.rules import unheard
from sigmascope.diagnosis.trainability import probability
from sigmascope.diagnosis.treatments import RemedyTrials, Treatment
from sigmascope.models.layers import module_name
from sigmascope.report.console import (
    Code,
    Part,
    amount,
    compact,
    counted,
    label,
    measured,
    shortened,
    spans_decades,
    sparkline,
    within,
)
from sigmascope.report.figures import drawn
from sigmascope.report.findings import told
from sigmascope.report.results import (
    DEPTH,
    NAMES,
    NUMBER,
    TEXT,
    Screen,
    columns,
    form,
    grid,
    has_form,
    has_rows,
    json_form,
    parts,
    row_columns,
    ruled,
    section,
    shortlist,
    some,
    with_more,
)
from sigmascope.report.several import gathered

# ------------------------------------------------------------------------------
# Quantities over the layers, as lines of blocks and as a table.


_ENDS = 14  # layers shown at either end of a deep net
_NAME = 32  # columns of the terminal that a long name is given
_LEAST_QUANTITIES = 2  # that stand beside the sizes of layers
_MOST = 12  # rows of a quantity, unless all are wanted
_LEAST = 16  # columns that it gets even where one quantity leaves no more
_FORMS = ("samples", "operator", "matrix", "kernel", "channels", "")  # most telling first


def sparklines_grid(profile: Profile, screen: Screen) -> Table | None:
    """One line of blocks per quantity over the layers, with its ends; None without curves."""
    heads = ("first", "last", "least", "most", "scale")
    table = grid("", "", *heads, right=heads)
    layers = sorted(profile.layers, key=lambda layer: layer.depth)
    for column in q.columns():
        found = most_telling(profile, column.name, column.views[0])
        of_weights = column.views[0] == "weights"
        sites = [s for p in layers for s in (p.parameters if of_weights else (p.site,))]
        places = dict.fromkeys(sites) or [site for site in found if site != OUTPUT]
        line = [found[site].estimate.value if site in found else None for site in places]
        values = [v for v in line if v is not None]
        if len(values) > 1:
            blocks = sparkline(line, width=max(8, screen.width - 68))
            ends = (values[0], values[-1], min(values), max(values))
            scale = "log" if spans_decades(values) else "linear"
            table.add_row(column.column, blocks, *map(compact, ends), Text(scale, "dim"))
    return table if table.row_count else None


def layers_grid(profile: Profile, keep: frozenset[str], screen: Screen) -> Table | None:
    """One row per layer; the middle of a deep net is left out but for the layers in `keep`."""
    found = {c: sites for c in q.columns() if (sites := most_telling(profile, c.name, c.views[0]))}
    if not profile.layers or not found:
        return None
    # layers to show, in order, and in their place the number of those left out
    layers = sorted(profile.layers, key=lambda layer: layer.depth)
    whole = screen.whole or len(layers) <= 2 * _ENDS + 6
    places: list[Layer | int] = []
    for i, layer in enumerate(layers):
        if whole or i < _ENDS or i >= len(layers) - _ENDS or layer.site in keep:
            places.append(layer)
        elif places and isinstance(places[-1], int):
            places[-1] += 1
        else:
            places.append(1)
    if any(r.site == OUTPUT for r in profile.readings):
        places.append(Layer(OUTPUT, "", len(layers)))
    sizes = {  # the largest rank that the representation read by each layer can have
        s.site: min(s.spectrum.shape)
        for s in profile.spectra
        if (s.view, s.form) == ("representations", "samples")
    }
    cells: dict[str, list[str]] = {}
    for place in (p for p in places if isinstance(p, Layer)):
        row = cells[place.site] = list[str]()
        for column, readings in found.items():
            own = place.parameters if column.views[0] == "weights" else (place.site,)
            estimates = [readings[site].estimate for site in own if site in readings]
            values = [e.value for e in estimates]
            if len(values) > 1:
                row.append(f"{compact(min(values), digits=3)}–{compact(max(values), digits=3)}")
            elif values and column.name == q.MATRIX_RANK and place.site in sizes:
                row.append(f"{counted(estimates[0])}/{sizes[place.site]}")
            else:
                row.append(within(estimates[0]) if values else "")
    heads = [c.column for c in found]
    wanted = min(_NAME, max(len(printable(site)) for site in cells))

    def fitting(heads: list[str], cells: Mapping[str, list[str]]) -> tuple[int, int]:
        """As many columns as leave room for the names of layers, and that room."""
        columns = zip(heads, *cells.values(), strict=True)
        widths = [2 + max(map(len, column)) for column in columns]
        free = lambda count: screen.width - 5 - sum(widths[:count])
        count = next((n for n in range(len(heads), 0, -1) if free(n) >= wanted), 1)
        return count, max(free(count), _LEAST)

    if any(layer.writes for layer in profile.layers):
        whole = [*SIZES, *heads], dict(cells)
        for p in places:
            if isinstance(p, Layer):
                known = "?" if p.multiply_adds is None else amount(p.multiply_adds)
                own = ["×".join(map(str, p.writes)), amount(p.numbers), known]
                whole[1][p.site] = [*(own if p.writes else [""] * len(own)), *cells[p.site]]
        # numbers that were measured stand before what is known of a layer
        if fitting(*whole)[0] >= len(SIZES) + min(_LEAST_QUANTITIES, len(heads)):
            heads, cells = whole
    count, room = fitting(heads, cells)
    table = ruled()
    for title in ("", "layer", *heads[:count]):
        table.add_column(title, justify="left" if title == "layer" else "right")
    for place in places:
        if isinstance(place, int):
            table.add_row("", Text(f"… {place} more", "dim"))
        else:
            depth = "" if place.site == OUTPUT else str(place.depth)
            name = label(place.site, room)
            table.add_row(depth, name, *map(Text, cells[place.site][:count]))
    return table


SIZES = ("output", "params", "mult-adds")  # columns


def most_telling(profile: Profile, name: str, view: View) -> dict[str, Reading]:
    """One reading of a quantity per site, in order, of the most telling form measured there."""
    chosen: dict[str, Reading] = {}
    for r in profile.series(name, view=view):
        if r.site not in chosen or _order(r) < _order(chosen[r.site]):
            chosen[r.site] = r
    return chosen


def _order(r: Reading) -> int:
    return _FORMS.index(r.form) if r.form in _FORMS else len(_FORMS)


# ------------------------------------------------------------------------------
# What stands at the end of a report: theorems, contradictions, what was not measured.


def checks_grid(profile: Profile) -> Table | None:
    """How each theorem fared that said something of this model; None where none did."""
    table = ruled()
    table.add_column("theorem", overflow="fold")
    for verdict in Verdict:
        table.add_column(verdict.value, justify="right")
    table.add_column("source", overflow="fold")
    for theorem, checks in _by_theorem(profile).items():
        counts = Counter(c.verdict for c in checks)
        if spoke(checks):
            numbers = (str(counts[verdict] or "·") for verdict in Verdict)
            table.add_row(Text(printable(theorem)), *numbers, Text(printable(checks[0].source)))
    return table if table.row_count else None


def inapplicable(profile: Profile) -> str:
    """How many theorems said nothing of this model, by name; empty where each said something."""
    groups = _by_theorem(profile)
    silent = [printable(name) for name, checks in groups.items() if not spoke(checks)]
    if not silent:
        return ""
    if len(silent) == len(groups):
        return f"Of {len(groups)} that were looked at none applies here: {', '.join(silent)}."
    apply = "does" if len(silent) == 1 else "do"
    return f"{len(silent)} more {apply} not apply here: {', '.join(silent)}."


def skipped_grid(skipped: Sequence[Skipped], screen: Screen) -> Table | None:
    """What was not measured, and why; sites of one reason in one row, unless all are wanted."""
    if not skipped:
        return None
    table = grid("", "", "", fold=True)
    table.show_header = False
    groups: dict[tuple[str, ...], list[str]] = {}
    for i, s in enumerate(skipped):
        groups.setdefault((s.what, s.why, str(i) if screen.whole else ""), []).append(s.site)
    for (what, why, _), sites in groups.items():
        more = f" and {len(sites) - 1} more" if len(sites) > 1 else ""
        table.add_row(*(Text(printable(word)) for word in (sites[0] + more, what, why)))
    return table


def violations(profile: Profile) -> tuple[str, ...]:
    """One line per site at which a theorem was contradicted: a bug, or a tacit assumption."""
    lines = []
    for c in profile.checks:
        if c.verdict is Verdict.VIOLATED:
            assert c.measured is not None  # a violated theorem has been asked for both
            assert c.limit is not None
            sides = f"{measured(c.measured)} is not {c.sense} {measured(c.limit)}"
            lines.append(f"{printable(c.theorem)} is violated at {printable(c.site)}: {sides}")
    return tuple(lines)


def _by_theorem(profile: Profile) -> dict[str, list[Check]]:
    groups: dict[str, list[Check]] = {}
    for check in profile.checks:
        groups.setdefault(check.theorem, []).append(check)
    return groups


# ------------------------------------------------------------------------------
# Training at the user's settings and beside them.


def chances_grid(profile: Profile) -> Table | None:
    """The probabilities that training succeeds, each with what it is the probability of."""
    table = Table.grid(padding=(0, 2))
    for chance in chances(profile):
        says = Text(chance.says, "dim")
        table.add_row(
            chance.name[:1].upper() + chance.name[1:], Text(measured(chance.estimate), "bold"), says
        )
    return table if table.row_count else None


def training_parts(profile: Profile) -> Iterator[Part]:
    """A row for each run, and under them what else was read; nothing where nothing was trained."""
    made = runs(profile)
    if made:
        table = grid("run", *COLUMNS.values(), right=[*COLUMNS.values()])
        for form, numbers in made.items():
            cells = (numbers.get(quantity) for quantity in COLUMNS)
            shown = ("–" if cell is None else measured(cell) for cell in cells)
            table.add_row(Text(printable(form)), *shown)
        yield table
        yield Text(LEFT, "dim")
    read = facts(profile)
    if read:
        more = Table.grid(padding=(0, 2))
        for r in read:
            more.add_row(r.quantity, measured(r.estimate))
        yield from [""] if made else []
        yield from (Text("At your settings:", "dim"), more)


@parts.register
def _profile(
    profile: Profile, screen: Screen, findings: Sequence[Finding] | None = None
) -> Iterator[Part]:
    """Coverage, findings, curves, layers, theorems, what is missing."""
    findings = judge(profile) if findings is None else findings
    seen = coverage(profile)
    yield Text(seen.says, "bold")
    if profile.about:
        words = ((printable(key), printable(value)) for key, value in profile.about.items())
        yield Text(" · ".join(f"{key} {value}" for key, value in words), "dim")
    yield ""
    if (odds := chances_grid(profile)) is not None:
        yield from (odds, "")
    if findings:
        yield from told(findings, screen)
    else:
        yield Text(no_findings(seen), "yellow" if seen.unseen else "bold green")
    if seen.unseen:
        yield from ([""] if findings else [])
        yield Text(f"Not looked at: {printable('; '.join(seen.unseen))}.")
    task = None  # what was read of outputs, targets and loss and is no number
    if profile.facts:
        task = Table.grid(padding=(0, 2))
        for f in profile.facts:
            task.add_row(Text(printable(f.site), "dim"), f.quantity, Text(printable(f.word)))
    sites = frozenset(f.site for f in findings)
    theorems: list[Part | None] = [checks_grid(profile)]
    if profile.checks and (silent := inapplicable(profile)):
        theorems.append(Text(silent, "dim"))
    theorems += (Text(line, "bold red") for line in violations(profile))
    layers: list[Part | None] = [layers_grid(profile, sites, screen)]
    sized = [layer for layer in profile.layers if layer.writes]
    if layers[0] is not None and sized:
        # numbers and arithmetic of all of them, a repeated layer's numbers once
        numbers = sum({module_name(layer.site): layer.numbers for layer in sized}.values())
        known = [layer.multiply_adds for layer in sized if layer.multiply_adds is not None]
        least = "at least " if len(known) < len(sized) else ""
        sizes = f"{amount(numbers)} parameters in layers, {least}{amount(sum(known))} multiply-adds"
        layers.append(Text(f"{sizes} for this batch.", "dim"))
    for title, inside in (
        ("Task", [task]),
        ("Training", [*training_parts(profile)]),
        ("Over depth", [sparklines_grid(profile, screen)]),
        ("Layers", layers),
        ("Balances", [readings_grid(profile, "balances", screen)]),
        ("Bottleneck", [readings_grid(profile, "bottleneck", screen)]),
        ("Theorems", theorems),
        ("Not measured", [skipped_grid(profile.skipped, screen)]),
    ):
        shown = [part for part in inside if part is not None]
        yield from section(title, *shown) if shown else ()


def readings_grid(profile: Profile, view: View, screen: Screen) -> Table | None:
    """The readings of one view, quantity by quantity; of balances the largest first.

    Args:
        profile: What was measured.
        view: One that has no columns in the table of layers.
        screen: Where it is shown.
    """
    found = [r for r in profile.readings if r.view == view]
    if not found:
        return None
    table = grid("quantity", "value", "where", fold=True)
    for quantity in dict.fromkeys(r.quantity for r in found):
        mine = [r for r in found if r.quantity == quantity]
        if view == "balances":
            mine.sort(key=lambda r: r.estimate.value, reverse=True)
        chosen, more = shortlist(mine, _MOST, screen)
        for r in chosen:
            table.add_row(quantity, measured(r.estimate), label(r.site, 88))
        if more:
            table.add_row(quantity, "", Text(more, "dim"))
    return table


def spoke(checks: Iterable[Check]) -> bool:
    """Whether a theorem said something of this model: it applied at some place."""
    return any(c.verdict is not Verdict.INAPPLICABLE for c in checks)


# ------------------------------------------------------------------------------
# A profile as strict JSON, and as rows.


@form.register
def _profile_form(profile: Profile, findings: Sequence[Finding] | None = None) -> dict[str, Any]:
    findings = judge(profile) if findings is None else findings
    depth = depths(profile)
    placed = lambda form: {**form, "depth": depth.get(form["site"])}
    form = encoded(profile)
    del form["views"]  # those that were not asked for are under `coverage`
    return {
        "schema": VERSION,  # first, for by it a file is known as one that may be written again
        **form,
        "coverage": coverage_form(coverage(profile)),
        "findings": [
            {**placed(finding), "evidence": [placed(r) for r in finding["evidence"]]}
            for finding in encoded(findings)
        ],
        "readings": [placed(reading) for reading in form["readings"]],
    }


@columns.register
def _profile_columns(profile: Profile) -> dict[str, list[Any]]:
    depth = depths(profile)
    places = [depth.get(r.site) for r in profile.readings]
    return row_columns(Reading, profile.readings, depth=places)


has_rows(Finding, "evidence", Reading)


# ------------------------------------------------------------------------------
# A program's diagnosis, what was tried to cure it, and other models beside one.

# what is shown before and after a remedy: quantity, form, and the end that tells most
CURVES: tuple[tuple[str, str, str], ...] = tuple(
    (each.name, "samples" if "representations" in each.views else "", each.compared)
    for each in q.quantities().values()
    if each.compared
)


@dataclass(frozen=True, slots=True, repr=False)
class Ranking(Shown):
    """Designs in order.

    Attributes:
        designs: From `diagnosis.ranking.rank`, the best first.
    """

    designs: tuple[Ranked, ...]


gathered(Treatment, lambda several: RemedyTrials(several, MappingProxyType({})))
gathered(Cure, lambda several: Cures(several, MappingProxyType({})), drawn)
gathered(Ranked, Ranking, parts, drawn)


def layer_values(profile: Profile, quantity: str, form: str) -> list[float]:
    """A quantity at every layer at which it was measured."""
    sites = {layer.site for layer in profile.layers}
    found = profile.series(quantity, form=form)
    return [r.estimate.value for r in found if r.site in sites]


# ------------------------------------------------------------------------------
# A program's diagnosis, and what was tried to cure it.


SHOWN = 3  # cures whose lines are printed


@parts.register
def _diagnosis(found: Diagnosis, screen: Screen, cures: Cures | None = None) -> Iterator[Part]:
    """The profile with its findings; behind it the cures."""
    yield from parts(found.profile, screen, found.findings)
    if cures is not None:
        yield ""
        yield from parts(cures, screen)


@parts.register
def _cures(found: Cures, screen: Screen) -> Iterator[Part]:
    """What was tried, the best first, and the lines of the first."""
    if not found.tried:
        none = "nothing was found that one is meant for"
        why = "what was thought of does not apply, or changes little" if found.declined else none
        yield Text(f"No cure: {why}.", "bold")
    else:
        yield Text("Cures, each trained on a copy as you train, the best first", "bold")
        # scores on samples that were not trained on, where there are such
        apart = any(c.others == c.others for c in found.tried)
        right = ("before", "after", *(["on others"] if apart else []))
        table = grid("cure", "meant for", *right, "steps", right=right)
        for cure in found.tried:
            scores = (cure.before, cure.after, *([cure.others] if apart else []))
            table.add_row(cure.name, cure.cause, *map(score, scores), str(cure.steps))
        yield table
        others = "; on others: on samples that they were not trained on" if apart else ""
        says = "Accuracy, or share of the targets' variance explained, on these samples"
        yield Text(f"{says}{others}.", "dim")
        for cure in found.tried[:SHOWN]:
            yield from parts(cure, screen)
    if found.declined:
        reasons = Table.grid(padding=(0, 2))
        for name, reason in found.declined.items():
            reasons.add_row(Text(name), Text(printable(reason), "dim"))
        yield from section("Declined", reasons)


@parts.register
def _cure(cure: Cure, _: Screen) -> Iterator[Part]:
    """The lines by which a user writes it."""
    title = f"{cure.name}: {score(cure.before)} → {score(cure.after)} after {cure.steps} steps"
    lines = cure.diff.splitlines() if cure.diff else cure.patch
    yield from section(title)
    yield Code("\n".join(map(printable, lines)))


def score(value: float) -> str:
    """Two digits behind the point; a dash where there is none."""
    return "–" if value != value else f"{value:.2f}"


# ------------------------------------------------------------------------------
# A model before and after a remedy.


@parts.register
def _remedy(remedy: remedies.Remedy, _: Screen) -> Iterator[Part]:
    """What it does, and its source."""
    yield Text.assemble((remedy.name, "bold"), f"  {remedy.says}")
    yield Text(remedy.source, "dim")


@parts.register
def _treatment(treatment: Treatment, screen: Screen) -> Iterator[Part]:
    """The profile of the new model beside that of the old one, and the findings of both."""
    yield from _remedy(treatment.remedy, screen)
    yield ""
    yield Text(f"Probability that plain training fits: {_chances(treatment)}")
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
    yield from section("Findings", grid)
    curves = Table.grid(padding=(0, 2))
    room = max(8, (screen.width - 64) // 2)
    for quantity, of, end in CURVES:
        sides = [layer_values(p, quantity, of) for p in (treatment.before, treatment.after)]
        if all(sides):
            lines = [Text(sparkline(values, width=room)) for values in sides]
            ends = [compact(values[-1 if end == "last" else 0]) for values in sides]
            curves.add_row(Text(quantity), *lines, Text(end, "dim"), f"{ends[0]} → {ends[1]}")
    yield from section("Before and after, over depth", curves)
    made = remedies.in_code(treatment.remedy)
    call = f"model = {made}.apply(model, batch)"
    if made:
        yield from section("In your code", Text("import sigmascope as ss"), Text(call))


@parts.register
def _trials(found: RemedyTrials, _: Screen) -> Iterator[Part]:
    """Every remedy that was tried; those that do not apply, with the reason."""
    yield Text("Remedies, each applied to a copy and measured again, the best first", "bold")
    titles = ("remedy", "fits", "last partic. ratio", "cured", "left or new")
    table = grid(*titles, fold=True)
    for t in found.treatments:
        series = [layer_values(p, q.PARTICIPATION_RATIO, "samples") for p in (t.before, t.after)]
        ends = " → ".join(compact(ratios[-1]) if ratios else "–" for ratios in series)
        causes = {f.name for f in t.found_before if not f.follows}
        cured = "\n".join(name for name in t.cured if name in causes) or "–"
        left = "\n".join(f"{f.name} ({f.severity})" for f in t.found_after if not f.follows) or "–"
        table.add_row(t.remedy.name, _chances(t), ends, cured, left)
    yield table
    if found.declined:
        why = Table.grid(padding=(0, 2))
        for name, reason in found.declined.items():
            why.add_row(Text(name), Text(printable(reason), "dim"))
        yield from section("Not applicable", why)
    if found.untried:
        yield ""
        yield Text(
            f"Not tried, as the budget had no time left: {listed(found.untried, most=99)}. All "
            f"need about {time_words(found.needed)}: allow them, `--budget` (`budget=` in Python)."
        )
    if (effect := found.normalisation) is not None:
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


@parts.register
def _layer_rates(found: LayerRates, _: Screen) -> Iterator[Part]:
    """A line for each group of parameters, in the order in which an optimizer has them."""
    yield Text("Learning rates by layer, for an optimizer: torch.optim.SGD(rates)", "bold")
    table = grid("layer", "rate", "parameters", right=("rate", "parameters"), fold=True)
    for row in found.rows:
        table.add_row(Text(printable(row["name"])), compact(row["lr"]), f"{row['parameters']:,}")
    yield table


# ------------------------------------------------------------------------------
# Designs in order.


NAME = 40  # columns that a name is given


@parts.register
def _ranking(found: Ranking, _: Screen) -> Iterator[Part]:
    yield Text("How far training will come, of designs at equal cost", "bold")
    yield Text("0 % is the best constant output, 100 % all that the targets hold.", "dim")
    yield ""
    heads = ("", "forecast", "between", "fits", "rate", "passes")
    table = grid(heads[0], "design", *heads[1:], right=heads)
    for r in found.designs:
        e = r.forecast
        cells = (
            f"{e.value:.0%}",
            f"{e.low:.0%} and {e.high:.0%}",
            f"{r.probability.value:.2f}",
            compact(r.rate),
            str(r.passes),
        )
        table.add_row(str(r.place), label(r.name, NAME), *cells)
    yield table
    yield ""
    for r in found.designs:
        yield Text(f"{r.place:>3}  {printable(r.why)}", "dim")


# ------------------------------------------------------------------------------
# Layers of lower rank.


@parts.register
def _compression(found: Compression, screen: Screen) -> Iterator[Part]:
    yield Text(printable(found.says), "bold")
    if found.layers:
        titles = ("layer", "rank", "of", "layer loses", "elsewhere", "output changes", "parameters")
        table = grid(*titles, right=titles[1:])
        for t in found.layers:
            table.add_row(
                shortened(printable(t.site), NAME),
                str(t.rank),
                str(t.full),
                *(f"{e.value:.2%}" for e in (t.error, t.elsewhere, t.change)),
                f"{t.parameters[1]:,} of {t.parameters[0]:,}",
            )
        yield from ("", table, "", Code(found.patch()))
    if (left := skipped_grid(found.skipped, screen)) is not None:
        yield from section("Not taken apart", left)


# ------------------------------------------------------------------------------
# The same as strict JSON, and as rows.


@form.register
def _diagnosis_form(found: Diagnosis, cures: Cures | None = None) -> dict[str, Any]:
    form = json_form(found.profile, found.findings)
    return form if cures is None else {**form, "cures": json_form(cures)}


@form.register
def _cures_form(found: Cures) -> dict[str, Any]:
    tried = [_cure_fields(cure) for cure in found.tried]
    return {"schema": "sigmascope/cures/1", "tried": tried, **some(found, "declined")}


@form.register
def _cure_form(found: Cure) -> dict[str, Any]:
    return {"schema": "sigmascope/cure/1", **_cure_fields(found)}


def _cure_fields(found: Cure) -> dict[str, Any]:
    """All but the program; a score that there is not is null."""
    names = ("name", "cause", "patch", "diff", "after", "steps")
    known = lambda score: None if math.isnan(score) else score
    return {**some(found, *names), "before": known(found.before), "others": known(found.others)}


@form.register
def _compression_form(found: Compression) -> dict[str, Any]:
    names = (f.name for f in fields(found) if f.name != "model")
    patch = found.patch().splitlines()
    return {"schema": "sigmascope/compression/1", **some(found, *names), "patch": patch}


has_form(Ranking, "ranking")


@form.register
def _trials_form(found: RemedyTrials) -> dict[str, Any]:
    return {
        "schema": "sigmascope/treatments/1",
        "treatments": [*map(json_form, found.treatments)],
        **some(found, "declined", "normalisation", "untried"),
    }


@form.register
def _remedy_form(found: remedies.Remedy) -> dict[str, Any]:
    return {"schema": "sigmascope/remedy/1", **some(found, "name", "says", "source")}


@form.register
def _layer_rates_form(found: LayerRates) -> dict[str, Any]:
    return {"schema": "sigmascope/layer-rates/1", "layers": found.rows}


@form.register
def _treatment_form(found: Treatment) -> dict[str, Any]:
    return {
        "schema": "sigmascope/treatment/1",
        "remedy": found.remedy.name,
        **some(found.remedy, "says", "source"),
        **some(found, "cured", "new"),
        "before": _side(found.before, found.found_before),
        "after": _side(found.after, found.found_after),
    }


def _side(profile: Profile, findings: Sequence[Finding]) -> dict[str, Any]:
    trains = probability(profile)
    curves = {quantity: layer_values(profile, quantity, of) for quantity, of, _ in CURVES}
    return {
        "probability_of_fitting": None if trains is None else encoded(trains.estimate),
        "findings": [some(f, "name", "site", "severity") for f in findings],
        "curves": {quantity.replace(" ", "_"): v for quantity, v in curves.items() if v},
    }


has_rows(Diagnosis, "findings", Finding)
has_rows(Cures, "tried", Cure)
has_rows(Compression, "layers", Truncation)
has_rows(Ranking, "designs", Ranked)


@columns.register
def _trials_columns(found: RemedyTrials) -> dict[str, list[Any]]:
    """A row a remedy: what it cured, what it brought, what is left, and how likely training is."""
    chance = lambda profile: r.estimate.value if (r := probability(profile)) else None
    burdens = [t.burden for t in found.treatments]
    return {
        "remedy": [t.remedy.name for t in found.treatments],
        "cured": [t.cured for t in found.treatments],
        "new": [t.new for t in found.treatments],
        "errors": [errors for errors, _ in burdens],
        "warnings": [warnings for _, warnings in burdens],
        "probability_before": [chance(t.before) for t in found.treatments],
        "probability_after": [chance(t.after) for t in found.treatments],
    }


@columns.register
def _remedy_columns(found: remedies.Remedy) -> dict[str, list[Any]]:
    return {name: [getattr(found, name)] for name in ("name", "says", "source")}


@columns.register
def _layer_rates_columns(found: LayerRates) -> dict[str, list[Any]]:
    rows = found.rows
    return {name: [row[name] for row in rows] for name in ("name", "lr", "parameters")}


@columns.register
def _treatment_columns(found: Treatment) -> dict[str, list[Any]]:
    return row_columns(Change, changes(found.before.readings, found.after.readings))


# ------------------------------------------------------------------------------
# What a profile tells, in numbers: what was measured of the model, and what of its training.

OUTPUT = "(output)"  # what the network returns, one place after the last layer


def depths(profile: Profile) -> dict[str, int]:
    """Depth of every site: layers by their order, a weight at the first layer that applies it.

    A profile without layers, of a checkpoint say, numbers its sites as they come. Sites that are
    neither a layer nor a weight of one are absent.
    """
    if not profile.layers:
        sites = dict.fromkeys(r.site for r in profile.readings)
        return {site: depth for depth, site in enumerate(sites)}
    found = {OUTPUT: 1 + max(layer.depth for layer in profile.layers)}
    for layer in sorted(profile.layers, key=lambda layer: layer.depth):
        for name in layer.parameters:
            found.setdefault(name, layer.depth)
    return found | {layer.site: layer.depth for layer in profile.layers}


# ------------------------------------------------------------------------------
# How much of a model the numbers speak of.


NAMED = 3  # places that are named in a sentence; the rest are counted


@dataclass(frozen=True, slots=True)
class Coverage:
    """What was measured out of what there is.

    Attributes:
        layers: Layers of the model, and weights that it applies outside of any layer.
        layers_measured: Those with at least one reading, of themselves or of a weight they apply.
        layers_in_part: Measured layers of which something is under `skipped`.
        weights: Weights of the model.
        weights_measured: Those with at least one reading that a layer which was called applies.
        weights_wanted: Whether the weights were among the views that were asked for.
        skipped: How many things were not measured, each with a reason in `Profile.skipped`.
        uncovered: Layers and weights that no call of a layer covers, by name.
        unasked: Views that were not asked for.
        silent: Rules that could not speak though what they read was asked for, and why.
    """

    layers: int
    layers_measured: int
    layers_in_part: int
    weights: int
    weights_measured: int
    weights_wanted: bool
    skipped: int
    uncovered: tuple[str, ...]
    unasked: tuple[str, ...]
    silent: tuple[str, ...] = ()

    @property
    def says(self) -> str:
        """One sentence; the first line of every report."""
        parts = f"weights {self.weights_measured} of {self.weights}"
        if not self.weights_wanted:
            parts = "weights not asked for"
        said = f"Measured {self.layers_measured} of {self.layers} layers ({parts})"
        if self.layers_in_part:
            said += f", {self.layers_in_part} of them in part"
        number = "1 measurement" if self.skipped == 1 else f"{self.skipped} measurements"
        rest = f"{number} left out: see below" if self.skipped else "nothing left out"
        return f"{said}; {rest}."

    @property
    def unseen(self) -> tuple[str, ...]:
        """What no rule could look at, a clause each; empty where everything was looked at."""
        said = []
        if self.uncovered:
            said.append(f"no call of a layer covers {_named(self.uncovered)}")
        left = self.skipped - len(self.uncovered)
        if left:
            said.append(f"{left} {'entry' if left == 1 else 'entries'} listed as not measured")
        said += self.silent
        if self.unasked:
            said.append(f"not asked for: {_named(self.unasked, most=len(self.unasked))}")
        return tuple(said)


def coverage(profile: Profile) -> Coverage:
    """Count what was measured; a layer or weight with a single reading counts as measured."""
    measured = {r.site for r in profile.readings}
    applied = {name for layer in profile.layers for name in layer.parameters}
    uncovered = [s for s in profile.skipped if s.what in ("layer", "weight")]
    weights = applied | {r.site for r in profile.readings if r.view == "weights"}
    weights |= {s.site for s in uncovered if s.what == "weight"}
    loose = {s.site for s in uncovered if s.what == "weight"}
    reached = [s for s in profile.layers if not measured.isdisjoint((s.site, *s.parameters))]
    gaps = [s for s in profile.skipped if s not in uncovered]
    wanted = any(r.view == "weights" for r in profile.readings)
    wanted |= any(s.what == "weights" for s in profile.skipped) or not weights
    asked = profile.views or {r.view for r in profile.readings}
    # not what is told by naming its view as not asked for
    told = {*asked, *(("task", "training") if "setup" in asked else ())}
    in_part = [s for s in reached if any(gap.site in (s.site, *s.parameters) for gap in gaps)]
    return Coverage(
        layers=len(profile.layers) + len(uncovered),
        layers_measured=len(reached),
        layers_in_part=len(in_part),
        weights=len(weights),
        weights_measured=len((applied - loose) & measured),
        weights_wanted=wanted,
        skipped=len(profile.skipped),
        uncovered=tuple(s.site for s in uncovered),
        unasked=tuple(view for view in EVERY if view not in asked),
        silent=tuple(u.says for u in unheard(profile) if u.need in told),
    )


def no_findings(seen: Coverage) -> str:
    """What may be said where no rule found anything."""
    if seen.unseen:
        return "No findings in what was measured: no rule saw anything there that hinders training."
    return "No findings: every rule looked, and saw nothing that hinders training."


def coverage_form(seen: Coverage) -> dict[str, Any]:
    """The same as strict JSON, with what it says in words."""
    form = encoded(seen)
    del form["weights_wanted"], form["silent"]  # the latter is told under `unseen`
    return form | {
        "says": seen.says,
        "unseen": list(seen.unseen),
        "no_findings": no_findings(seen),
    }


def _named(names: tuple[str, ...], *, most: int = NAMED) -> str:
    tail = f" and {len(names) - most} more" if len(names) > most else ""
    return ", ".join(f"`{name}`" for name in names[:most]) + tail


# ------------------------------------------------------------------------------
# Runs at the user's settings and beside them, and the odds.


YOURS = q.PROBABILITY_AT_YOUR_SETTINGS
COLUMNS: Mapping[str, str] = MappingProxyType(  # what is read of each run, and its heading
    {
        "rate": "rate",
        q.LOSS_LEFT: q.LOSS_LEFT,
        q.LOSS_LEFT_BY_THEN: "left by then at your settings",
        q.BROKE_AT_STEP: q.BROKE_AT_STEP,
    }
)
LEFT = "Loss left: 0 at the least loss of all outputs, 1 at that of the best constant output."


@dataclass(frozen=True, slots=True)
class Chance:
    """A probability that training succeeds.

    Attributes:
        name: The quantity.
        estimate: How probable it is.
        says: That what is so probable.
    """

    name: str
    estimate: Estimate
    says: str


def runs(profile: Profile) -> dict[str, dict[str, Estimate]]:
    """The runs of copies in the order in which they were made, that at the user's settings first.

    Returns:
        What was measured of each by the quantities of `COLUMNS`, by what it has different from the
        user's settings.
    """
    forms: dict[str, dict[str, Estimate]] = {}
    for r in _own(profile):
        if r.quantity in COLUMNS:
            forms.setdefault(r.form, {})[r.quantity] = r.estimate
    return forms


def facts(profile: Profile) -> tuple[Reading, ...]:
    """What else was read of training, but for its probability, which stands above all."""
    return tuple(r for r in _own(profile) if r.quantity not in (*COLUMNS, YOURS))


def chances(profile: Profile) -> tuple[Chance, ...]:
    """The probability at the best of the usual rates, and that at the user's own settings."""
    usual = probability(profile)
    says = "that plain training fits these data, at the best of the usual learning rates"
    best = () if usual is None else (Chance(usual.quantity, usual.estimate, says),)
    yours = (r for r in _own(profile) if r.quantity == YOURS)
    return (*best, *(Chance(r.quantity, r.estimate, q.quantities()[YOURS].says) for r in yours))


def _own(profile: Profile) -> tuple[Reading, ...]:
    return tuple(r for r in profile.readings if r.view == "training")


# ------------------------------------------------------------------------------
# What the JSON of a profile looks like, for programs that read it: derived from the records.

VERSION = "sigmascope/profile/3"  # a new number whenever a reader of the old form could go wrong


_CLAUSES = "What no rule could look at; without findings nothing is known of it."
SCHEMA: Final[dict[str, Any]] = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "$id": "urn:sigmascope:profile:2",
    "title": "A sigmascope profile and what was found in it",
    **with_more(
        schema_of(Profile, NAMES),
        without=("views",),  # those that were not asked for are under `coverage`
        schema={"const": VERSION},
        coverage={"$ref": "#/$defs/coverage"},
        findings={"type": "array", "items": {"$ref": "#/$defs/finding"}},
    ),
    "$defs": {
        "number": NUMBER,
        "coverage": with_more(
            schema_of(Coverage, NAMES),
            without=("weights_wanted", "silent"),  # what was silent is told under `unseen`
            says={**TEXT, "description": "One sentence."},
            unseen={"type": "array", "items": TEXT, "description": _CLAUSES},
            no_findings={**TEXT, "description": "What may be said where `findings` is empty."},
        ),
        **{name: schema_of(kind, NAMES) for kind, name in NAMES.items()},
        **{
            name: with_more(schema_of(kind, NAMES), depth=DEPTH)
            for kind, name in NAMES.items()
            if name in ("reading", "finding")
        },
    },
}
