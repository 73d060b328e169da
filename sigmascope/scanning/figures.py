"""Scans of checkpoints as figures."""

from collections.abc import Iterable, Sequence

from sigmascope.core import quantities as q
from sigmascope.core.guard import Refusal
from sigmascope.core.records import Finding, Scan, ScanPlan
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
from sigmascope.scanning.rows import by_kind, seen

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
def _scan(
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
def _plan(plan: ScanPlan, sheet: Sheet, **more: object) -> None:
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
