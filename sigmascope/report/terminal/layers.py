"""Quantities over the layers, as lines of blocks and as a table."""

from collections.abc import Mapping, Sequence

from rich.table import Table
from rich.text import Text

from sigmascope import quantities as q
from sigmascope.gate import printable
from sigmascope.records import Layer, Profile, Reading
from sigmascope.report.depths import OUTPUT
from sigmascope.report.terminal.names import shortened
from sigmascope.report.terminal.numbers import compact, counted, within
from sigmascope.report.terminal.screens import Screen, grid, ruled
from sigmascope.report.terminal.sparklines import spans_decades, sparkline

_ENDS = 14  # layers shown at either end of a deep net
_NAME = 32  # columns of the terminal that a long name is given
_LEAST = 16  # columns that it gets even where one quantity leaves no more
_FORMS = ("samples", "operator", "matrix", "kernel", "channels", "")  # most telling first


def sparklines_grid(profile: Profile, screen: Screen) -> Table | None:
    """One line of blocks per quantity over the layers, with its ends; None without curves."""
    heads = ("first", "last", "least", "most", "scale")
    table = grid("", "", *heads, right=heads)
    for column in q.columns():
        line = _line(profile, column)
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
    sizes = _sizes(profile)
    cells = {
        place.site: [_cell(found[c], place, c, sizes) for c in found]
        for place in places
        if isinstance(place, Layer)
    }
    count, room = _fitting([[c.column for c in found], *cells.values()], [*cells], screen.width)
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


def _fitting(rows: list[list[str]], sites: list[str], width: int) -> tuple[int, int]:
    """How many quantities leave room for the names of layers, and how much they leave."""
    wanted = min(_NAME, max(len(printable(site)) for site in sites))
    free = lambda count: width - 5 - _taken([row[:count] for row in rows])
    count = next((n for n in range(len(rows[0]), 0, -1) if free(n) >= wanted), 1)
    return count, max(free(count), _LEAST)


def _by_site(profile: Profile, column: q.Quantity) -> dict[str, Reading]:
    """One reading of the quantity per site, in order, of the most telling form measured there."""
    chosen: dict[str, Reading] = {}
    for r in profile.series(column.name, view=column.views[0]):
        if r.site not in chosen or _order(r) < _order(chosen[r.site]):
            chosen[r.site] = r
    return chosen


def _line(profile: Profile, column: q.Quantity) -> list[float | None]:
    """The quantity at every layer or weight, in order; None where it was not measured."""
    found = _by_site(profile, column)
    layers = sorted(profile.layers, key=lambda layer: layer.depth)
    sites = [
        s for p in layers for s in (p.parameters if column.views[0] == "weights" else (p.site,))
    ]
    places = dict.fromkeys(sites) or [site for site in found if site != OUTPUT]
    return [found[site].estimate.value if site in found else None for site in places]


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


def _sizes(profile: Profile) -> dict[str, int]:
    """The largest rank that the representation read by each layer can have."""
    return {
        s.site: min(s.spectrum.shape)
        for s in profile.spectra
        if (s.view, s.form) == ("representations", "samples")
    }
