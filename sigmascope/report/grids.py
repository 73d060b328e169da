"""The tables of the terminal report."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from rich import box
from rich.table import Table
from rich.text import Text

from sigmascope.gate import printable
from sigmascope.records import Check, Layer, Profile, Reading, Verdict
from sigmascope.report.names import shortened
from sigmascope.report.numbers import compact, measured, within
from sigmascope.report.places import OUTPUT
from sigmascope.report.sparklines import spans_decades, sparkline

_ENDS = 14  # layers shown at either end of a deep net
_NAME = 32  # columns of the terminal that a long name is given
_LEAST = 16  # columns that it gets even where one quantity leaves no more
_FORMS = ("samples", "operator", "matrix", "kernel", "channels", "")  # most telling first


@dataclass(frozen=True, slots=True)
class _Column:
    """A quantity worth a column, most telling first."""

    title: str
    quantity: str
    view: Literal["representations", "weights", "features"]


_COLUMNS = (
    _Column("partic. ratio", "participation ratio", "representations"),
    _Column("centred ratio", "centred participation ratio", "representations"),
    _Column("rank", "matrix rank", "representations"),
    _Column("mean square", "mean square", "representations"),
    _Column("adjoint norm", "adjoint norm", "features"),
    _Column("NTK trace", "NTK trace", "features"),
    _Column("rel. variation", "relative variation", "representations"),
    _Column("weight norm", "spectral norm", "weights"),
    _Column("dead units", "dead units", "representations"),
    _Column("stable rank", "stable rank", "weights"),
)


def sparklines_grid(profile: Profile, width: int) -> Table | None:
    """One line of blocks per quantity over the layers, with its ends; None without curves."""
    grid = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for title in ("", "", "first", "last", "least", "most", "scale"):
        grid.add_column(title, justify="right" if title else "left", header_style="dim")
    for column in _COLUMNS:
        line = _line(profile, column)
        values = [v for v in line if v is not None]
        if len(values) > 1:
            blocks = sparkline(line, width=max(8, width - 68))
            ends = (values[0], values[-1], min(values), max(values))
            scale = "log" if spans_decades(values) else "linear"
            grid.add_row(column.title, blocks, *map(compact, ends), Text(scale, "dim"))
    return grid if grid.row_count else None


def layers_grid(profile: Profile, keep: frozenset[str], width: int, *, whole: bool) -> Table | None:
    """One row per layer; the middle of a deep net is left out but for the layers in `keep`."""
    found = {c: sites for c in _COLUMNS if (sites := _by_site(profile, c))}
    sizes = _sizes(profile)
    if not profile.layers or not found:
        return None
    places = _rows(profile, keep, whole=whole)
    named = [place for place in places if isinstance(place, Layer)]
    wanted = min(_NAME, max(len(printable(place.site)) for place in named))
    rows = [
        [c.title for c in found],
        *([_cell(found[c], p, c, sizes) for c in found] for p in named),
    ]
    free = lambda count: width - 5 - _taken([row[:count] for row in rows])
    fitting = (n for n in range(len(found), 0, -1) if free(n) >= wanted)
    count = next(fitting, 1)  # as many quantities as leave room for the names
    columns, room = tuple(found)[:count], max(free(count), _LEAST)
    cells = {p.site: row[:count] for p, row in zip(named, rows[1:], strict=True)}
    grid = _ruled()
    for title in ("", "layer", *(c.title for c in columns)):
        grid.add_column(title, justify="left" if title == "layer" else "right")
    for place in places:
        if isinstance(place, int):
            grid.add_row("", Text(f"… {place} more", "dim"))
        else:
            depth = "" if place.site == OUTPUT else str(place.depth)
            name = Text(shortened(printable(place.site), room))
            grid.add_row(depth, name, *map(Text, cells[place.site]))
    return grid


def checks_grid(profile: Profile) -> Table | None:
    """How each theorem fared, and every site at which one was violated."""
    if not profile.checks:
        return None
    grid = _ruled()
    grid.add_column("theorem", overflow="fold")
    for verdict in Verdict:
        grid.add_column(verdict.value, justify="right")
    grid.add_column("source", overflow="fold")
    for theorem in dict.fromkeys(c.theorem for c in profile.checks):
        checks = [c for c in profile.checks if c.theorem == theorem]
        counts = Counter(c.verdict for c in checks)
        numbers = (str(counts[verdict] or "·") for verdict in Verdict)
        grid.add_row(Text(printable(theorem)), *numbers, Text(printable(checks[0].source)))
    return grid


def skipped_grid(profile: Profile, *, whole: bool) -> Table | None:
    """What was not measured, and why; sites of one reason in one row, unless `whole`."""
    if not profile.skipped:
        return None
    grid = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), show_header=False)
    for _ in range(3):
        grid.add_column(overflow="fold")
    groups: dict[tuple[str, ...], list[str]] = {}
    for i, s in enumerate(profile.skipped):
        groups.setdefault((s.what, s.why, str(i) if whole else ""), []).append(s.site)
    for (what, why, _), sites in groups.items():
        more = f" and {len(sites) - 1} more" if len(sites) > 1 else ""
        grid.add_row(*(Text(printable(word)) for word in (sites[0] + more, what, why)))
    return grid


def violations(profile: Profile) -> tuple[str, ...]:
    """One line per site at which a theorem was contradicted: a bug, or a tacit assumption."""
    return tuple(_violation(c) for c in profile.checks if c.verdict is Verdict.VIOLATED)


def _by_site(profile: Profile, column: _Column) -> dict[str, Reading]:
    """One reading of the quantity per site, in order, of the most telling form measured there."""
    chosen: dict[str, Reading] = {}
    for r in profile.series(column.quantity, view=column.view):
        if r.site not in chosen or _order(r) < _order(chosen[r.site]):
            chosen[r.site] = r
    return chosen


def _line(profile: Profile, column: _Column) -> list[float | None]:
    """The quantity at every layer or weight, in order; None where it was not measured."""
    found = _by_site(profile, column)
    layers = sorted(profile.layers, key=lambda layer: layer.depth)
    sites = [s for p in layers for s in (p.parameters if column.view == "weights" else (p.site,))]
    places = dict.fromkeys(sites) or [site for site in found if site != OUTPUT]
    return [found[site].estimate.value if site in found else None for site in places]


def _ruled() -> Table:
    padding = (0, 1, 0, 0)
    return Table(
        box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=padding, header_style="dim"
    )


def _taken(rows: Sequence[Sequence[str]]) -> int:
    """Columns of the terminal that these rows of cells need."""
    return sum(2 + max(map(len, column)) for column in zip(*rows, strict=True))


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
    found: Mapping[str, Reading], place: Layer, column: _Column, sizes: Mapping[str, int]
) -> str:
    sites = place.parameters if column.view == "weights" else (place.site,)
    estimates = [found[site].estimate for site in sites if site in found]
    if not estimates:
        return ""
    if len(estimates) > 1:
        values = [e.value for e in estimates]
        return f"{compact(min(values), digits=3)}–{compact(max(values), digits=3)}"
    ranked = column.quantity == "matrix rank" and place.site in sizes
    return within(estimates[0]) + (f"/{sizes[place.site]}" if ranked else "")


def _sizes(profile: Profile) -> dict[str, int]:
    """The largest rank that the representation read by each layer can have."""
    return {
        s.site: min(s.spectrum.shape)
        for s in profile.spectra
        if (s.view, s.form) == ("representations", "samples")
    }


def _violation(check: Check) -> str:
    assert check.measured is not None  # a violated theorem has been asked for both
    assert check.limit is not None
    sides = f"{measured(check.measured)} is not {check.sense} {measured(check.limit)}"
    return f"{printable(check.theorem)} is violated at {printable(check.site)}: {sides}"
