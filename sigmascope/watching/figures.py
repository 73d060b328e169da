"""Runs of training as figures."""

from collections.abc import Iterable

from sigmascope.core import quantities as q
from sigmascope.core.guard import Refusal
from sigmascope.core.records import Estimate, Reading
from sigmascope.core.store import Row, Run
from sigmascope.report.figures import (
    COLOURS,
    TONES,
    Sheet,
    asked_for,
    drawn,
    forest,
    heading,
    legend,
    line,
    require_known,
    scaled,
)
from sigmascope.watching.comparing import Parting

PANELS = 6  # of a run, unless quantities are asked for
SHADES = "viridis"  # of layers, from the first to the last


@drawn.register
def _run(run: Run, sheet: Sheet, *, quantities: str | Iterable[str] = (), **more: object) -> None:
    """Quantities over the steps, a line for each layer; alarms where they begin."""
    require_known(more, "quantities")
    curves: dict[str, dict[tuple[str, str], list[Row[Reading]]]] = {}
    for row in run.readings():
        reading = row.record
        sites = curves.setdefault(reading.quantity, {})
        sites.setdefault((reading.site, reading.form), []).append(row)
    alarms = [*run.findings()]
    wanted = asked_for(quantities, curves, "in this run")
    if not curves:
        raise Refusal("Nothing was read in this run yet, so that there is nothing to draw.")
    several = [n for n in curves if max(len(rows) for rows in curves[n].values()) > 1]
    shown = {r.quantity for row in alarms for r in row.record.evidence}
    ranked = sorted(several or curves, key=lambda n: (n != q.LOSS, n not in shown))
    names = wanted or ranked[:PANELS]
    from matplotlib import colormaps

    for ax, name in zip(sheet.panels(len(names), height=1.7), names, strict=True):
        sites = curves[name]
        scaled(ax, [r.record.estimate.value for rows in sites.values() for r in rows])
        for place, ((site, form), rows) in enumerate(sites.items()):
            alone = len(sites) == 1
            shade = COLOURS[0] if alone else colormaps[SHADES](place / (len(sites) - 1))
            name_of = " ".join(filter(None, (site, form))) if len(sites) <= 6 else ""
            estimates = [row.record.estimate for row in rows]
            line(ax, [row.step for row in rows], estimates, colour=shade, name=name_of)
        for row in alarms:
            if any(r.quantity == name for r in row.record.evidence):
                tone = TONES[row.record.severity]
                ax.axvline(row.step, color=tone, linewidth=0.8, linestyle="--")
        heading(ax, name)
        ax.set_xlabel("step")
        if 1 < len(sites) <= 6:
            legend(ax)


@drawn.register
def _parting(found: Parting, sheet: Sheet, **more: object) -> None:
    """The step from which each quantity differs, the first on top."""
    require_known(more)
    if not found.order:
        raise Refusal("The runs do not part, so that there is nothing to draw. `print` says more.")
    rows = []
    for p in found.order:
        what = f"{p.site} · {p.quantity}"
        rows.append((what, Estimate(p.step, p.step, max(p.step, p.seen), "decided by")))
    forest(sheet, rows, label="step from which the runs differ, to the step at which that is sure")
