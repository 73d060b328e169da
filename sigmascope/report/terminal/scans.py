"""What was measured of the matrices of a checkpoint."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from statistics import median

from rich.table import Table
from rich.text import Text

from sigmascope import quantities as q
from sigmascope.gate import printable
from sigmascope.records import Finding, Reading
from sigmascope.records.scans import Matrix, Scan
from sigmascope.report.scans.groups import Columns, by_kind, pairs, seen, values
from sigmascope.report.scans.outliers import FAR, outliers
from sigmascope.report.terminal.console import Part
from sigmascope.report.terminal.names import shortened
from sigmascope.report.terminal.numbers import compact, lasting, sized, within
from sigmascope.report.terminal.profile import told
from sigmascope.report.terminal.scan_changes import change_parts, changed
from sigmascope.report.terminal.scan_plans import KIND, about, left_out, shape
from sigmascope.report.terminal.screens import Screen, grid, parts, section, shortlist
from sigmascope.report.terminal.sparklines import sparkline

UNUSUAL = 8  # that are named, unless all are wanted
SITE = 44  # columns that the name of a matrix is given
LEAST = 16  # that it gets where numbers leave no more
_DRAWN = (q.SPECTRAL_NORM, q.STABLE_RANK, q.EFFECTIVE_RANK)
_LISTED = {  # of every matrix, with the heading of its column
    q.SPECTRAL_NORM: "norm",
    q.STABLE_RANK: q.STABLE_RANK,
    q.EFFECTIVE_RANK: "eff. rank",
    q.SPIKES: q.SPIKES,
    q.NOISE_DISTANCE: "noise",
    q.POWER_LAW_EXPONENT: "exponent",
    q.RELATIVE_CHANGE: "change",
}
_EXPONENT, _TESTED = q.POWER_LAW_EXPONENT, q.POWER_LAW_P_VALUE


@parts.register
def _scan(scan: Scan, screen: Screen, findings: Sequence[Finding] | None = None) -> Iterator[Part]:
    """Heading, findings, kinds, depth, the unusual, changes, what is missing."""
    yield from _heading(scan)
    if findings is not None:  # else nobody looked
        none = Text("No findings.", "bold green" if scan.readings else "yellow")
        yield from ("", *(told(findings, screen) if findings else (none,)))
    read = seen(scan)
    if scan.readings and scan.matrices:
        if not changed(read):  # then nothing else was read
            yield from section("By kind", _kinds(scan, read))
        if (depth := _depth(scan, read, screen)) is not None:
            yield from section("Over depth", depth)
        yield from _unusual(scan, screen)
        if changed(read):
            yield from change_parts(scan, read, screen)
        yield from _between(pairs(scan))
    if screen.whole and scan.matrices:
        yield from section("Matrices", _each(scan, read, screen))
    for title, skipped in (("Not measured", scan.skipped), ("Left out", scan.plan.skipped)):
        if skipped:
            yield from section(f"{title}: {len(skipped):,}", *left_out(skipped, screen))


def _heading(scan: Scan) -> Iterator[Part]:
    matrices = scan.matrices
    numbers = sum(m.rows * m.cols for m in matrices)
    of = f"{len(matrices):,} {'matrix' if len(matrices) == 1 else 'matrices'}"
    size = f"{compact(numbers)} parameters, {sized(scan.plan.bytes)}"
    yield Text(f"{printable(scan.plan.source)}: {of}, {size}{_took(scan.about)}.", "bold")
    words = {k: v for k, v in {**scan.plan.about, **scan.about}.items() if k != "seconds"}
    if words:
        yield Text(about(words), "dim")


def _took(words: Mapping[str, str]) -> str:
    try:
        return f", in {lasting(float(words['seconds']))}"
    except (KeyError, ValueError):  # not every scan says how long it took
        return ""


def _kinds(scan: Scan, read: Columns) -> Table:
    """Medians of each kind, and the ends of the norms."""
    norms, ranks = ("norm", "least", "most"), (q.STABLE_RANK, "eff. rank")
    right = ("n", *norms, *ranks, q.SPIKES, "noise", "exponent")
    table = grid("kind", "n", "shape", *right[1:], right=right)
    for column in table.columns[:3]:
        column.no_wrap = True
    for kind, matrices in by_kind(scan.matrices).items():
        of = lambda name, end=median, m=matrices: _end(read, name, m, end)
        table.add_row(
            Text(shortened(printable(kind), KIND)),
            f"{len(matrices):,}",
            shape(matrices),
            *(of(q.SPECTRAL_NORM, end) for end in (median, min, max)),
            of(q.STABLE_RANK),
            _share(read.get(q.EFFECTIVE_RANK, {}), matrices),
            *(of(q.SPIKES), of(q.NOISE_DISTANCE)),
            _exponent(scan, read, matrices),
        )
    return table


def _end(
    read: Columns, name: str, matrices: Sequence[Matrix], end: Callable[[list[float]], float]
) -> str:
    known = values(read.get(name, {}), matrices)
    return compact(end(known), digits=3) if known else "–"


def _share(read: Mapping[str, Reading], matrices: Sequence[Matrix]) -> str:
    """The median of an effective rank, as a share of the shorter side."""
    known = [read[m.site].estimate.value / min(m.shape) for m in matrices if m.site in read]
    return f"{median(known):.0%}" if known else "–"


def _exponent(scan: Scan, read: Columns, matrices: Sequence[Matrix]) -> str:
    """The median where fits were accepted, and how many were tried; or that none was."""
    accepted = values(read.get(_EXPONENT, {}), matrices)
    fits = {s.site for s in scan.skipped if s.what.startswith(_EXPONENT)} | {*read.get(_TESTED, {})}
    refused = sum(m.site in fits and m.site not in read.get(_EXPONENT, {}) for m in matrices)
    if accepted:
        of = f" ({len(accepted)} of {len(accepted) + refused})" if refused else ""
        return compact(median(accepted), digits=3) + of
    return f"0 of {refused}" if refused else "–"


def _depth(scan: Scan, read: Columns, screen: Screen) -> Table | None:
    """A line of blocks for each kind that stands at several depths."""
    drawn = [name for name in _DRAWN if name in read]
    table = grid("kind", *drawn)
    width = max(8, (screen.width - KIND - 2) // max(1, len(drawn)) - 2)
    for kind, matrices in by_kind(m for m in scan.matrices if m.depth >= 0).items():
        if len({m.depth for m in matrices}) > 1:
            lines = (sparkline(_line(read[name], matrices), width=width) for name in drawn)
            table.add_row(Text(shortened(printable(kind), KIND)), *lines)
    return table if table.row_count and drawn else None


def _line(read: Mapping[str, Reading], matrices: Sequence[Matrix]) -> list[float | None]:
    """The median at each depth; None where nothing was read."""
    found: dict[int, list[float]] = {}
    for m in sorted(matrices, key=lambda m: m.depth):
        found.setdefault(m.depth, []).extend(values(read, [m]))
    return [median(known) if known else None for known in found.values()]


def _unusual(scan: Scan, screen: Screen) -> Iterator[Part]:
    found = outliers(scan)
    if not found:
        return
    right = ("value", "usual", "deviations")
    table = grid("matrix", "quantity", *right, "also", right=right)
    table.columns[0].no_wrap = True  # what it sticks out by besides goes on in the next line
    chosen, more = shortlist(found, UNUSUAL, screen)
    for each in chosen:
        table.add_row(
            Text(shortened(printable(each.matrix.site), SITE)),
            each.reading.quantity,
            compact(each.reading.estimate.value, digits=3),
            compact(each.usual, digits=3),
            f"{each.far:+.0f}",
            Text(", ".join(each.also), "dim"),
        )
    says = (
        f"Unlike their neighbours in depth of the same kind, by {FAR:g} robust deviations or more"
    )
    yield from section("Unusual", Text(says, "dim"), table)
    if more:
        yield Text(f"{more} (--whole lists them)", "dim")


def _between(met: Columns) -> Iterator[Part]:
    """What was read of two matrices that meet or are alike, and where it is the most."""
    right = ("n", "median", "least", "most")
    table = grid("quantity", *right, "most at", right=right)
    for name, sites in met.items():
        known = {site: r.estimate.value for site, r in sites.items()}
        ends = (end(known.values()) for end in (median, min, max))
        most = shortened(printable(max(known, key=lambda site: known[site])), 2 * SITE)
        table.add_row(name, f"{len(known):,}", *(compact(x, digits=3) for x in ends), Text(most))
    if met:
        yield from section("Between matrices", table)


def _each(scan: Scan, read: Columns, screen: Screen) -> Table:
    """One line for each matrix; where they do not fit, names are cut and never numbers."""
    names = [name for name in _LISTED if name in read]
    right = ("depth", *(_LISTED[name] for name in names))
    table = grid("matrix", "depth", "shape", *right[1:], right=right)
    rows = [_line_of(m, [read[name] for name in names]) for m in scan.matrices]
    widths = [
        max(map(len, column)) for column in zip((right[0], "shape", *right[1:]), *rows, strict=True)
    ]
    room = max(LEAST, screen.width - sum(width + 2 for width in widths))
    for column in table.columns:
        column.no_wrap = True
    for m, cells in zip(scan.matrices, rows, strict=True):
        table.add_row(Text(shortened(printable(m.site), room)), *cells)
    return table


def _line_of(m: Matrix, read: Sequence[Mapping[str, Reading]]) -> list[str]:
    depth = "" if m.depth < 0 else str(m.depth)
    numbers = (within(sites[m.site].estimate) if m.site in sites else "–" for sites in read)
    return [depth, shape([m]), *numbers]
