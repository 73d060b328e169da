"""How far the matrices of a checkpoint are from those of another version."""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from statistics import median

from rich.table import Table
from rich.text import Text

from sigmascope import quantities as q
from sigmascope.gate import printable
from sigmascope.records import Reading
from sigmascope.records.scans import Matrix, Scan
from sigmascope.report.scans.groups import Columns, by_kind, values
from sigmascope.report.terminal.console import Part
from sigmascope.report.terminal.names import shortened
from sigmascope.report.terminal.numbers import compact, within
from sigmascope.report.terminal.scan_plans import KIND
from sigmascope.report.terminal.screens import Screen, grid, section, shortlist

MOST = 10  # matrices that are named, unless all are wanted
SITE = 44
_MOVED = q.RELATIVE_CHANGE


def changed(read: Columns) -> bool:
    """Whether two versions were compared."""
    return _MOVED in read


def change_parts(scan: Scan, read: Columns, screen: Screen) -> Iterator[Part]:
    """How far each kind moved, which matrices did the most, and which directions are new."""
    moved = [m for m in scan.matrices if m.site in read[_MOVED]]
    still = sum(read[_MOVED][m.site].estimate.value == 0 for m in moved)  # as `unmoved-weights`
    says = f"{len(moved) - still:,} of {len(moved):,} matrices changed."
    yield from section("Moved", Text(says), _kinds(moved, read))
    far = lambda m: read[_MOVED][m.site].estimate.value
    most = sorted((m for m in moved if far(m) > 0), key=far, reverse=True)
    if most:
        yield from section("Moved most", _most(most, read, screen))
    if words := _directions(moved, read):
        yield from section("Directions", *(Text(line) for line in words))


def _kinds(moved: Sequence[Matrix], read: Columns) -> Table:
    right = (
        "n",
        "change",
        "most",
        "turned",
        "scale",
        q.STABLE_RANK,
        q.SPIKES,
        "angle",
        q.INTRUDERS,
    )
    table = grid("kind", *right, right=right)
    for kind, matrices in by_kind(moved).items():
        name = Text(shortened(printable(kind), KIND))
        table.add_row(name, f"{len(matrices):,}", *_row(matrices, read))
    return table


def _row(matrices: Sequence[Matrix], read: Columns) -> Iterator[str]:
    """How far matrices of a kind moved and turned: medians, the largest change, all intruders."""
    yield _one(read, _MOVED, matrices)
    yield _one(read, _MOVED, matrices, max)
    yield _one(read, q.TURNED_CHANGE, matrices)
    yield _one(read, q.BEST_SCALE, matrices, digits=5)
    yield _one(read, q.CHANGE_STABLE_RANK, matrices)
    yield _one(read, q.CHANGE_SPIKES, matrices)
    yield _degrees(_all(read, q.LARGEST_ANGLE, matrices))
    yield _one(read, q.INTRUDERS, matrices, sum)


def _most(matrices: Sequence[Matrix], read: Columns, screen: Screen) -> Table:
    right = ("change", "turned", "scale", "angle", "intruders")
    table = grid("matrix", *right, right=right)
    chosen, more = shortlist(matrices, MOST, screen)
    for m in chosen:
        table.add_row(
            Text(shortened(printable(m.site), SITE)),
            within(read[_MOVED][m.site].estimate),
            _one(read, q.TURNED_CHANGE, [m]),
            _one(read, q.BEST_SCALE, [m], digits=5),
            _degrees(_all(read, q.LARGEST_ANGLE, [m])),
            _one(read, q.INTRUDERS, [m]),
        )
    if more:
        table.add_row(Text(f"{more} (--whole lists them)", "dim"))
    return table


def _directions(moved: Sequence[Matrix], read: Columns) -> Iterator[str]:
    """New directions and turned ones, in words."""
    counts = {m.site: sum(_all(read, q.INTRUDERS, [m])) for m in moved}
    new = {site: count for site, count in counts.items() if count > 0}
    if new:
        most = max(new, key=lambda site: new[site])
        yield (
            f"{sum(new.values()):,.0f} intruders in {len(new):,} of {len(moved):,} matrices, most "
            f"in {shortened(printable(most), SITE)}: {new[most]:.0f}."
        )
    elif any(name.startswith("intruders") for name in read):
        yield "No intruders: every leading direction was there before."
    angles = {m.site: max(_all(read, q.LARGEST_ANGLE, [m]), default=-1.0) for m in moved}
    if known := {site: angle for site, angle in angles.items() if angle >= 0}:
        most = max(known, key=lambda site: known[site])
        yield (
            f"Leading directions turned by {_degrees([*known.values()])} (median), at most by "
            f"{_degrees([known[most]])}, in {shortened(printable(most), SITE)}."
        )


def _all(read: Columns, name: str, matrices: Sequence[Matrix]) -> list[float]:
    """Readings of a quantity in whatever form it was read."""
    forms: list[Mapping[str, Reading]] = [
        sites for key, sites in read.items() if key == name or key.startswith(f"{name} (")
    ]
    return [v for sites in forms for v in values(sites, matrices)]


def _one(
    read: Columns,
    name: str,
    matrices: Sequence[Matrix],
    of: Callable[[list[float]], float] = median,
    digits: int = 3,
) -> str:
    known = _all(read, name, matrices)
    return compact(of(known), digits=digits) if known else "–"


def _degrees(angles: Sequence[float]) -> str:
    return f"{math.degrees(median(angles)):.0f}°" if angles else "–"
