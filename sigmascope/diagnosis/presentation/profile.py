"""A profile, and what was found in it."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from rich.table import Table
from rich.text import Text

from sigmascope import quantities as q
from sigmascope.diagnosis.engine import judge
from sigmascope.diagnosis.presentation.schema import VERSION
from sigmascope.diagnosis.presentation.summaries import (
    COLUMNS,
    LEFT,
    OUTPUT,
    chances,
    coverage,
    coverage_form,
    depths,
    facts,
    no_findings,
    runs,
)
from sigmascope.guard import printable
from sigmascope.quantities import View
from sigmascope.records import Check, Finding, Layer, Profile, Reading, Verdict
from sigmascope.records.encoding import encoded
from sigmascope.report.console import (
    Part,
    compact,
    counted,
    measured,
    shortened,
    spans_decades,
    sparkline,
    within,
)
from sigmascope.report.findings import told
from sigmascope.report.forms import form
from sigmascope.report.screens import Screen, grid, parts, ruled, section, shortlist
from sigmascope.report.tables import columns, row_columns

# ------------------------------------------------------------------------------
# Quantities over the layers, as lines of blocks and as a table.


_ENDS = 14  # layers shown at either end of a deep net
_NAME = 32  # columns of the terminal that a long name is given
_MOST = 12  # rows of a quantity, unless all are wanted
_LEAST = 16  # columns that it gets even where one quantity leaves no more
_FORMS = ("samples", "operator", "matrix", "kernel", "channels", "")  # most telling first


def sparklines_grid(profile: Profile, screen: Screen) -> Table | None:
    """One line of blocks per quantity over the layers, with its ends; None without curves."""
    heads = ("first", "last", "least", "most", "scale")
    table = grid("", "", *heads, right=heads)
    layers = sorted(profile.layers, key=lambda layer: layer.depth)
    for column in q.columns():
        found = _by_site(profile, column)
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
    found = {c: sites for c in q.columns() if (sites := _by_site(profile, c))}
    if not profile.layers or not found:
        return None
    places = _rows(profile, keep, whole=screen.whole)
    sizes = {  # the largest rank that the representation read by each layer can have
        s.site: min(s.spectrum.shape)
        for s in profile.spectra
        if (s.view, s.form) == ("representations", "samples")
    }
    cells = {
        place.site: [_cell(found[c], place, c, sizes) for c in found]
        for place in places
        if isinstance(place, Layer)
    }
    # as many quantities as leave room for the names of layers
    rows = [[c.column for c in found], *cells.values()]
    wanted = min(_NAME, max(len(printable(site)) for site in cells))
    taken = lambda count: sum(
        2 + max(map(len, column)) for column in zip(*(r[:count] for r in rows), strict=True)
    )
    free = lambda count: screen.width - 5 - taken(count)
    count = next((n for n in range(len(found), 0, -1) if free(n) >= wanted), 1)
    room = max(free(count), _LEAST)
    table = ruled()
    for title in ("", "layer", *(c.column for c in tuple(found)[:count])):
        table.add_column(title, justify="left" if title == "layer" else "right")
    for place in places:
        if isinstance(place, int):
            table.add_row("", Text(f"… {place} more", "dim"))
        else:
            depth = "" if place.site == OUTPUT else str(place.depth)
            name = Text(shortened(printable(place.site), room))
            table.add_row(depth, name, *map(Text, cells[place.site][:count]))
    return table


def _by_site(profile: Profile, column: q.Quantity) -> dict[str, Reading]:
    """One reading of the quantity per site, in order, of the most telling form measured there."""
    chosen: dict[str, Reading] = {}
    for r in profile.series(column.name, view=column.views[0]):
        if r.site not in chosen or _order(r) < _order(chosen[r.site]):
            chosen[r.site] = r
    return chosen


def _order(r: Reading) -> int:
    return _FORMS.index(r.form) if r.form in _FORMS else len(_FORMS)


def _rows(profile: Profile, keep: frozenset[str], *, whole: bool) -> list[Layer | int]:
    """Layers to show, in order, and in their place the number of those left out."""
    layers = sorted(profile.layers, key=lambda layer: layer.depth)
    ends = any(r.site == OUTPUT for r in profile.readings)
    output = [Layer(OUTPUT, "", len(layers))] if ends else []
    if whole or len(layers) <= 2 * _ENDS + 6:
        return [*layers, *output]
    shown: list[Layer | int] = []
    for i, layer in enumerate(layers):
        if i < _ENDS or i >= len(layers) - _ENDS or layer.site in keep:
            shown.append(layer)
        elif shown and isinstance(shown[-1], int):
            shown[-1] += 1
        else:
            shown.append(1)
    return [*shown, *output]


def _cell(
    found: Mapping[str, Reading], place: Layer, column: q.Quantity, sizes: Mapping[str, int]
) -> str:
    sites = place.parameters if column.views[0] == "weights" else (place.site,)
    estimates = [found[site].estimate for site in sites if site in found]
    if not estimates:
        return ""
    if len(estimates) > 1:
        values = [e.value for e in estimates]
        return f"{compact(min(values), digits=3)}–{compact(max(values), digits=3)}"
    if column.name == q.MATRIX_RANK and place.site in sizes:
        return f"{counted(estimates[0])}/{sizes[place.site]}"
    return within(estimates[0])


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


def skipped_grid(profile: Profile, screen: Screen) -> Table | None:
    """What was not measured, and why; sites of one reason in one row, unless all are wanted."""
    if not profile.skipped:
        return None
    table = grid("", "", "", fold=True)
    table.show_header = False
    groups: dict[tuple[str, ...], list[str]] = {}
    for i, s in enumerate(profile.skipped):
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
        for run in made:
            cells = (run.numbers.get(quantity) for quantity in COLUMNS)
            shown = ("–" if cell is None else measured(cell) for cell in cells)
            table.add_row(Text(printable(run.form)), *shown)
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
    sites = frozenset(f.site for f in findings)
    theorems: list[Part | None] = [checks_grid(profile)]
    if profile.checks and (silent := inapplicable(profile)):
        theorems.append(Text(silent, "dim"))
    theorems += (Text(line, "bold red") for line in violations(profile))
    for title, inside in (
        ("Task", [facts_grid(profile)]),
        ("Training", [*training_parts(profile)]),
        ("Over depth", [sparklines_grid(profile, screen)]),
        ("Layers", [layers_grid(profile, sites, screen)]),
        ("Balances", [readings_grid(profile, "balances", screen)]),
        ("Bottleneck", [readings_grid(profile, "bottleneck", screen)]),
        ("Theorems", theorems),
        ("Not measured", [skipped_grid(profile, screen)]),
    ):
        shown = [part for part in inside if part is not None]
        yield from section(title, *shown) if shown else ()


def facts_grid(profile: Profile) -> Table | None:
    """What was read of outputs, targets and loss and is no number."""
    if not profile.facts:
        return None
    table = Table.grid(padding=(0, 2))
    for f in profile.facts:
        table.add_row(Text(printable(f.site), "dim"), f.quantity, Text(printable(f.word)))
    return table


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
            table.add_row(quantity, measured(r.estimate), Text(shortened(printable(r.site), 88)))
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


@columns.register
def _finding_columns(finding: Finding) -> dict[str, list[Any]]:
    return row_columns(Reading, finding.evidence)
