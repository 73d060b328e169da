"""What was measured of the matrices of a checkpoint: text, JSON, rows and figures."""

import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import accumulate
from statistics import median
from typing import Any, Final

from rich.table import Table
from rich.text import Text

from sigmascope.core import quantities as q
from sigmascope.core.encoding import encoded, schema_of
from sigmascope.core.guard import Refusal, printable
from sigmascope.core.records import Finding, Matrix, Reading, Scan, ScanPlan, Skipped
from sigmascope.report.console import (
    Part,
    compact,
    label,
    lasting,
    shortened,
    sized,
    sparkline,
    within,
)
from sigmascope.report.figures import (
    COLOURS,
    MARKS,
    TONES,
    Sheet,
    asked_for,
    drawn,
    heading,
    legend,
    places,
    require_known,
    scaled,
)
from sigmascope.report.findings import reasons, told
from sigmascope.report.results import (
    NAMES,
    NUMBER,
    Screen,
    columns,
    form,
    grid,
    has_form,
    parts,
    section,
    shortlist,
    some_of,
    with_more,
)
from sigmascope.scanning.rows import (
    FAR,
    Columns,
    by_kind,
    no_findings,
    outliers,
    pairs,
    plan_columns,
    scan_columns,
    seen,
    values,
)

# ------------------------------------------------------------------------------
# What a scan of a checkpoint will do.


KIND = 26  # columns that the name of a kind is given
MOST = 12  # reasons that are listed, unless all are wanted
_EXAMPLES = 2  # sites named with a reason
_SITE = 40


@parts.register
def _plan(plan: ScanPlan, screen: Screen) -> Iterator[Part]:
    """What is read, what it costs, what each kind is, what is left out."""
    many, tensors = len(plan.matrices), plan.tensors
    of = f"{many:,} {'matrix' if many == 1 else 'matrices'}"
    counts = f"{of} in {tensors:,} tensor{'' if tensors == 1 else 's'}, {sized(plan.bytes)} to read"
    yield Text(f"{printable(plan.source)}: {counts}.", "bold")
    workers = "1 process" if plan.workers == 1 else f"{plan.workers} processes"
    yield Text(
        f"About {lasting(plan.seconds)} of processor time, {lasting(plan.seconds / plan.workers)} "
        f"with {workers}; at most {sized(plan.memory)} of memory each."
    )
    if plan.about:
        yield Text(about(plan.about), "dim")
    if plan.matrices:
        right = ("matrices", "bytes", "full", "leading")
        table = grid("kind", "matrices", "shape", "dtype", *right[1:], right=right)
        for kind, matrices in by_kind(plan.matrices).items():
            efforts = Counter(m.effort for m in matrices)
            dtypes = ", ".join(dict.fromkeys(printable(m.dtype) for m in matrices))
            table.add_row(
                label(kind, KIND),
                f"{len(matrices):,}",
                shape(matrices),
                Text(shortened(dtypes, KIND)),
                sized(sum(m.bytes for m in matrices)),
                *(str(efforts[how] or "·") for how in ("full", "leading")),
            )
        yield from section("Matrices", table)
    if plan.skipped:
        title = f"Left out: {len(plan.skipped):,} of {plan.tensors:,} tensors"
        yield from section(title, *left_out(plan.skipped, screen))


def about(words: Mapping[str, str]) -> str:
    """Circumstances in one line."""
    return " · ".join(f"{printable(key)} {printable(value)}" for key, value in words.items())


def left_out(skipped: Sequence[Skipped], screen: Screen) -> Iterator[Part]:
    """Each reason once, with how many it holds for and some of their names."""
    table = grid("what", "how many", "why", "for example", right=("how many",), fold=True)
    chosen, more = shortlist([*reasons(skipped).items()], MOST, screen)
    for (what, why), sites in chosen:
        named = sites if screen.whole else sites[:_EXAMPLES]
        names = "\n".join(shortened(printable(site), _SITE) for site in named)
        cells = (printable(what), f"{len(sites):,}", printable(why), names)
        table.add_row(*map(Text, cells))
    yield table
    if more:
        yield Text(f"{more} reasons (--whole lists them)", "dim")


def shape(matrices: Sequence[Matrix]) -> str:
    """The commonest shape, and how many others there are.

    Example:
        >>> shape([Matrix("a", "linear", 0, 2, 3, "float32", ("a",), 24, "full", 12.0)])
        '2×3'
    """
    counts = Counter(m.shape for m in matrices)
    (rows, cols), _ = counts.most_common(1)[0]
    more = f" +{len(counts) - 1}" if len(counts) > 1 else ""
    return f"{rows}×{cols}{more}"


# ------------------------------------------------------------------------------
# How far the matrices of a checkpoint are from those of another version.


MOST_MOVED = 10  # matrices that are named, unless all are wanted
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
        name = label(kind, KIND)
        table.add_row(
            name,
            f"{len(matrices):,}",
            _one(read, _MOVED, matrices),
            _one(read, _MOVED, matrices, max),
            _one(read, q.TURNED_CHANGE, matrices),
            _one(read, q.BEST_SCALE, matrices, digits=5),
            _one(read, q.CHANGE_STABLE_RANK, matrices),
            _one(read, q.CHANGE_SPIKES, matrices),
            _degrees(_all(read, q.LARGEST_ANGLE, matrices)),
            _one(read, q.INTRUDERS, matrices, sum),
        )
    yield from section("Moved", Text(says), table)
    far = lambda m: read[_MOVED][m.site].estimate.value
    most = sorted((m for m in moved if far(m) > 0), key=far, reverse=True)
    if most:
        right = ("change", "turned", "scale", "angle", "intruders")
        table = grid("matrix", *right, right=right)
        for m in some_of(table, most, MOST_MOVED, screen):
            table.add_row(
                label(m.site, SITE),
                within(read[_MOVED][m.site].estimate),
                _one(read, q.TURNED_CHANGE, [m]),
                _one(read, q.BEST_SCALE, [m], digits=5),
                _degrees(_all(read, q.LARGEST_ANGLE, [m])),
                _one(read, q.INTRUDERS, [m]),
            )
        yield from section("Moved most", table)
    if still < len(moved) and q.CHANGE_SIZE in read:
        yield from section("Spread", *_spread(moved, read))
    # new directions and turned ones, in words
    words: list[str] = []
    counts = {m.site: sum(_all(read, q.INTRUDERS, [m])) for m in moved}
    new = {site: count for site, count in counts.items() if count > 0}
    if new:
        most_new = max(new, key=lambda site: new[site])
        words.append(
            f"{sum(new.values()):,.0f} intruders in {len(new):,} of {len(moved):,} matrices, most "
            f"in {shortened(printable(most_new), SITE)}: {new[most_new]:.0f}."
        )
    elif any(name.startswith("intruders") for name in read):
        words.append("No intruders: every leading direction was there before.")
    angles = {m.site: max(_all(read, q.LARGEST_ANGLE, [m]), default=-1.0) for m in moved}
    if known := {site: angle for site, angle in angles.items() if angle >= 0}:
        turned = max(known, key=lambda site: known[site])
        words.append(
            f"Leading directions turned by {_degrees([*known.values()])} (median), at most by "
            f"{_degrees([known[turned]])}, in {shortened(printable(turned), SITE)}."
        )
    if words:
        yield from section("Directions", *map(Text, words))


def _spread(moved: Sequence[Matrix], read: Columns) -> Iterator[Part]:
    """How a change is spread over matrices, and over the directions of each."""
    squares = {m.site: sum(x * x for x in _all(read, q.CHANGE_SIZE, [m])) for m in moved}
    total = sum(squares.values())
    if not 0 < total < math.inf:
        return
    order = sorted(squares, key=squares.__getitem__, reverse=True)
    sums = accumulate(squares[site] for site in order)
    half = next((i for i, x in enumerate(sums, 1) if x >= total / 2), len(order))
    most = f"{shortened(printable(order[0]), SITE)} ({squares[order[0]] / total:.0%})"
    yield Text(
        f"Half of the change (squared norm) is in {half:,} of {len(moved):,} matrices, most in "
        f"{most}."
    )
    right = ("share", "spectral", "rank", "top eighth", "in leading", "rounding")
    table = grid("kind", *right, right=right)
    for kind, matrices in by_kind(moved).items():
        inside = _all(read, q.CHANGE_IN_LEADING, matrices)
        # beside what a change has there whose directions are drawn at random
        chances = [
            r.estimate.value * m.rows * m.cols / int(r.form.split()[0]) ** 2
            for m in matrices
            if (r := read.get(q.CHANGE_IN_LEADING, {}).get(m.site))
        ]
        times = f" ({compact(median(chances), digits=2)}×)" if chances else ""
        top, rounding = (
            _all(read, name, matrices) for name in (q.CHANGE_IN_TOP_EIGHTH, q.CHANGE_BY_ROUNDING)
        )
        table.add_row(
            label(kind, KIND),
            f"{sum(squares[m.site] for m in matrices) / total:.1%}",
            _one(read, q.SPECTRAL_CHANGE, matrices),
            _one(read, q.CHANGE_RANK, matrices),
            f"{median(top):.0%}" if top else "–",
            f"{compact(median(inside), digits=2)}{times}" if inside else "–",
            f"{compact(median(rounding), digits=2)}" if rounding else "–",
        )
    yield table
    yield Text(
        "rank: of the change, beyond what rounding makes; top eighth: share of it in an eighth of "
        "its directions; in leading: share in the first version's leading ones (beside chance); "
        "rounding: share of it that rounding makes.",
        "dim",
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


UNUSUAL = 8  # that are named, unless all are wanted
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
    matrices = scan.matrices
    numbers = sum(m.rows * m.cols for m in matrices)
    of = f"{len(matrices):,} {'matrix' if len(matrices) == 1 else 'matrices'}"
    size = f"{compact(numbers)} parameters, {sized(scan.plan.bytes)}"
    took = ""
    with suppress(KeyError, ValueError):  # not every scan says how long it took
        took = f", in {lasting(float(scan.about['seconds']))}"
    yield Text(f"{printable(scan.plan.source)}: {of}, {size}{took}.", "bold")
    words = {k: v for k, v in {**scan.plan.about, **scan.about}.items() if k != "seconds"}
    if words:
        yield Text(about(words), "dim")
    if findings is not None:  # else nobody looked
        none = Text(no_findings(scan), "bold green" if scan.readings else "yellow")
        yield from ("", *(told(findings, screen) if findings else (none,)))
    read = seen(scan)
    if scan.readings and scan.matrices:
        if not changed(read):  # then nothing else was read
            yield from section("By kind", _kinds(scan, read))
        # a line of blocks for each kind that stands at several depths
        drawn = [name for name in _DRAWN if name in read]
        table = grid("kind", *drawn)
        width = max(8, (screen.width - KIND - 2) // max(1, len(drawn)) - 2)
        for kind, some in by_kind(m for m in matrices if m.depth >= 0).items():
            if len({m.depth for m in some}) > 1:
                lines = (sparkline(_line(read[name], some), width=width) for name in drawn)
                table.add_row(label(kind, KIND), *lines)
        if table.row_count and drawn:
            yield from section("Over depth", table)
        if unusual := outliers(scan):
            right = ("value", "usual", "deviations")
            table = grid("matrix", "quantity", *right, "also", right=right)
            table.columns[
                0
            ].no_wrap = True  # what it sticks out by besides goes on in the next line
            chosen, more = shortlist(unusual, UNUSUAL, screen)
            for each in chosen:
                table.add_row(
                    label(each.matrix.site, SITE),
                    each.reading.quantity,
                    compact(each.reading.estimate.value, digits=3),
                    compact(each.usual, digits=3),
                    f"{each.far:+.0f}",
                    Text(", ".join(each.also), "dim"),
                )
            says = (
                "Unlike their neighbours in depth of the same kind, by "
                f"{FAR:g} robust deviations or more"
            )
            yield from section("Unusual", Text(says, "dim"), table)
            if more:
                yield Text(f"{more} (--whole lists them)", "dim")
        if changed(read):
            yield from change_parts(scan, read, screen)
        # what was read of two matrices that meet or are alike, and where it is the most
        met = pairs(scan)
        right = ("n", "median", "least", "most")
        table = grid("quantity", *right, "most at", right=right)
        for name, sites in met.items():
            known = {site: r.estimate.value for site, r in sites.items()}
            ends = (end(known.values()) for end in (median, min, max))
            most = shortened(printable(max(known, key=lambda site: known[site])), 2 * SITE)
            table.add_row(
                name, f"{len(known):,}", *(compact(x, digits=3) for x in ends), Text(most)
            )
        if met:
            yield from section("Between matrices", table)
    if screen.whole and scan.matrices:
        yield from section("Matrices", _each(scan, read, screen))
    for title, skipped in (("Not measured", scan.skipped), ("Left out", scan.plan.skipped)):
        if skipped:
            yield from section(f"{title}: {len(skipped):,}", *left_out(skipped, screen))


def _kinds(scan: Scan, read: Columns) -> Table:
    """Medians of each kind, and the ends of the norms."""
    norms, ranks = ("norm", "least", "most"), (q.STABLE_RANK, "eff. rank")
    right = ("n", *norms, *ranks, q.SPIKES, "noise", "exponent")
    table = grid("kind", "n", "shape", *right[1:], right=right)
    for column in table.columns[:3]:
        column.no_wrap = True
    fits = {s.site for s in scan.skipped if s.what.startswith(_EXPONENT)} | {*read.get(_TESTED, {})}
    for kind, matrices in by_kind(scan.matrices).items():

        def of(name: str, end: Callable[[list[float]], float] = median, m: Any = matrices) -> str:
            known = values(read.get(name, {}), m)
            return compact(end(known), digits=3) if known else "–"

        # the median where fits were accepted, and how many were tried; or that none was
        exponents = read.get(_EXPONENT, {})
        accepted = values(exponents, matrices)
        refused = sum(m.site in fits and m.site not in exponents for m in matrices)
        if accepted:
            tried = f" ({len(accepted)} of {len(accepted) + refused})" if refused else ""
            exponent = compact(median(accepted), digits=3) + tried
        else:
            exponent = f"0 of {refused}" if refused else "–"
        known = read.get(q.EFFECTIVE_RANK, {})  # as a share of the shorter side
        shares = [known[m.site].estimate.value / min(m.shape) for m in matrices if m.site in known]
        table.add_row(
            label(kind, KIND),
            f"{len(matrices):,}",
            shape(matrices),
            *(of(q.SPECTRAL_NORM, end) for end in (median, min, max)),
            of(q.STABLE_RANK),
            f"{median(shares):.0%}" if shares else "–",
            *(of(q.SPIKES), of(q.NOISE_DISTANCE)),
            exponent,
        )
    return table


def _line(read: Mapping[str, Reading], matrices: Sequence[Matrix]) -> list[float | None]:
    """The median at each depth; None where nothing was read."""
    found: dict[int, list[float]] = {}
    for m in sorted(matrices, key=lambda m: m.depth):
        found.setdefault(m.depth, []).extend(values(read, [m]))
    return [median(known) if known else None for known in found.values()]


def _each(scan: Scan, read: Columns, screen: Screen) -> Table:
    """One line for each matrix; where they do not fit, names are cut and never numbers."""
    names = [name for name in _LISTED if name in read]
    right = ("depth", *(_LISTED[name] for name in names))
    table = grid("matrix", "depth", "shape", *right[1:], right=right)
    rows: list[list[str]] = []
    for m in scan.matrices:
        depth = "" if m.depth < 0 else str(m.depth)
        numbers = (
            within(read[name][m.site].estimate) if m.site in read[name] else "–" for name in names
        )
        rows.append([depth, shape([m]), *numbers])
    widths = [
        max(map(len, column)) for column in zip((right[0], "shape", *right[1:]), *rows, strict=True)
    ]
    room = max(LEAST, screen.width - sum(width + 2 for width in widths))
    for column in table.columns:
        column.no_wrap = True
    for m, cells in zip(scan.matrices, rows, strict=True):
        table.add_row(label(m.site, room), *cells)
    return table


# ------------------------------------------------------------------------------
# Scans as strict JSON, and as rows.


SCAN_VERSION = "sigmascope/scan/2"


@form.register
def _scan_form(scan: Scan, findings: Sequence[Finding] = ()) -> dict[str, Any]:
    # a run file keeps singular values; as text those of a large checkpoint would fill the memory
    form = encoded(replace(scan, spectra=()))
    del form["spectra"]
    return {"schema": SCAN_VERSION, **form, "findings": encoded(tuple(findings))}


has_form(ScanPlan, "scan-plan")


def matrix_form(
    matrix: Matrix, readings: Iterable[Reading], skipped: Iterable[Skipped] = ()
) -> dict[str, Any]:
    """One matrix with what was read of it, for a file that grows by a line for each.

    Args:
        matrix: What it is.
        readings: What was read of it.
        skipped: What was not measured of it, each with the reason.

    Example:
        >>> zero = Matrix("fc", "linear", 0, 2, 3, "float32", ("fc",), 24, "full", 12.0)
        >>> matrix_form(zero, ())["schema"]
        'sigmascope/scan-matrix/1'
    """
    return {
        "schema": "sigmascope/scan-matrix/1",
        **encoded(matrix),
        "readings": encoded(tuple(readings)),
        "skipped": encoded(tuple(skipped)),
    }


def _scan_definitions() -> dict[str, Any]:
    known = ("estimate", "reading", "spectrum", "finding", "skipped")
    names = {kind: name for kind, name in NAMES.items() if name in known}
    names |= {Matrix: "matrix", ScanPlan: "plan"}
    found = {name: schema_of(kind, names) for kind, name in names.items()}
    depth = found["matrix"]["properties"]["depth"]["description"]
    placed = {"type": "integer", "minimum": -1, "description": depth}
    return {"number": NUMBER, **found, "matrix": with_more(found["matrix"], depth=placed)}


SCAN_SCHEMA: Final[dict[str, Any]] = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "$id": "urn:sigmascope:scan:2",
    "title": "What was measured of the matrices of a checkpoint, and what was found in it",
    **with_more(
        schema_of(Scan, {**NAMES, ScanPlan: "plan"}),
        schema={"const": SCAN_VERSION},
        findings={"type": "array", "items": {"$ref": "#/$defs/finding"}},
        without=("spectra",),  # they are in the run file
    ),
    "$defs": _scan_definitions(),
}


columns.register(scan_columns)
columns.register(plan_columns)


# ------------------------------------------------------------------------------
# Scans of checkpoints as figures.


FIRST = (  # of a scan, unless others are asked for
    q.SPECTRAL_NORM,
    q.STABLE_RANK,
    q.EFFECTIVE_RANK,
    q.SPIKES,
    q.NOISE_DISTANCE,
    q.POWER_LAW_EXPONENT,
)
KINDS = 8  # that are told apart by colour; the rest are grey


@drawn.register
def _scan_figure(
    scan: Scan,
    sheet: Sheet,
    findings: Sequence[Finding] = (),
    *,
    quantities: str | Iterable[str] = (),
    **more: object,
) -> None:
    """Each matrix by its place in the network, kinds by colour; a ring where a finding begins."""
    require_known(more, "quantities")
    read = seen(scan)
    wanted = asked_for(quantities, read, "of these matrices")
    names = wanted or [n for n in FIRST if n in read] or list(read)[:6]
    if not names:
        raise Refusal("Nothing was measured in this scan, so that there is nothing to draw.")
    kinds, found = by_kind(scan.matrices), {f.site: f for f in findings}
    axes = sheet.panels(len(names), height=1.7)
    for ax, name in zip(axes, names, strict=True):
        at = [r.estimate.value for r in read[name].values()]
        scaled(ax, at)
        for place, (kind, matrices) in enumerate(kinds.items()):
            own = [m for m in matrices if m.site in read[name]]
            xs = [m.depth if m.depth >= 0 else -0.5 for m in own]
            colour = COLOURS[place] if place < KINDS else "#cccccc"
            ys = [read[name][m.site].estimate for m in own]
            ax.vlines(xs, [e.low for e in ys], [e.high for e in ys], color=colour, linewidth=0.8)
            label = kind if place < KINDS else "others" if place == KINDS else None
            values = [e.value for e in ys]
            mark = MARKS[place % len(MARKS)]
            ax.plot(xs, values, mark, color=colour, markersize=2.5, label=label)
            for m, x, y in zip(own, xs, values, strict=True):
                if m.site in found and any(r.quantity == name for r in found[m.site].evidence):
                    tone = TONES[found[m.site].severity]
                    ax.plot(x, y, "o", markersize=7, color=tone, markerfacecolor="none")
        heading(ax, name)
        ax.set_xlabel("block")
    if len(kinds) > 1:
        legend(axes[0], outside=True)


@drawn.register
def _plan_figure(plan: ScanPlan, sheet: Sheet, **more: object) -> None:
    """How large the matrices are that would be read."""
    require_known(more)
    if not plan.matrices:
        raise Refusal("No matrix would be read, so that there is nothing to draw.")
    (ax,) = sheet.panels(1, height=2.4)
    scaled(ax, [float(m.rows * m.cols) for m in plan.matrices])
    for place, (kind, matrices) in enumerate(by_kind(plan.matrices).items()):
        xs = [m.depth if m.depth >= 0 else -0.5 for m in matrices]
        sizes = [m.rows * m.cols for m in matrices]
        colour, mark = COLOURS[place % len(COLOURS)], MARKS[place % len(MARKS)]
        ax.plot(xs, sizes, mark, color=colour, label=kind)
    places(ax, [""] * 99, label="block")
    heading(ax, "entries of the matrices to be read")
    legend(ax)
