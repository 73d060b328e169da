"""Runs of training: two side by side as text, JSON and rows; one or two as figures."""

import math
from collections.abc import Iterable, Iterator
from dataclasses import fields
from typing import Any

from rich.text import Text

from sigmascope.core import quantities as q
from sigmascope.core.guard import Refusal, printable
from sigmascope.core.records import Estimate, Reading
from sigmascope.core.store import Row, Run
from sigmascope.report.console import Part, compact, label, measured
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
from sigmascope.report.results import (
    Screen,
    form,
    grid,
    has_rows,
    parts,
    section,
    some,
    some_of,
)
from sigmascope.watching import Parted, Parting

MOST = 12  # rows of a section, unless all are wanted
SITE = 36  # columns that a name is given
APART = 0.1  # of the larger last loss, by which they differ


@parts.register
def _parting(found: Parting, screen: Screen) -> Iterator[Part]:
    yield Text(_headline(found), "bold")
    until, same = found.same_until, ""
    if found.differs_at is not None:
        at = found.differing[0]
        more = f" and {len(found.differing) - 1} more" if len(found.differing) > 1 else ""
        place = f"{at.quantity} at {printable(at.site)}{more}"
        same = "No step is" if until is None else f"Until step {until} they are"
        same = f"{same} bit for bit the same; step {found.differs_at} is not ({place})."
    elif until is not None:
        same = f"What both read is bit for bit the same until step {until}, the last."
    yield Text(same)
    yield Text(f"first: {printable(found.runs[0])}; second: {printable(found.runs[1])}", "dim")
    if found.order:
        following = ("site", "step", "quantity", "first", "second", "times")
        table = grid(*following, right=("step", "first", "second", "times"))
        for p in some_of(table, found.order, MOST, screen):
            times = "∞" if math.isinf(p.times) else compact(p.times, digits=3)
            numbers = (measured(p.first), measured(p.second), times)
            table.add_row(label(p.site, SITE), str(p.step), _what(p), *numbers)
        yield from section("In order", table)
        limit = compact(found.limit, digits=3)
        words = (
            f"times: the mean difference of {found.window} readings, in standard errors that the "
            f"runs' own changes from reading to reading explain; it counts above {limit}."
        )
        yield Text(words, "dim")
    sides = ((f"Only in {printable(name)}", i) for i, name in enumerate(found.runs))
    alarms = [(title, found.alarms[i]) for title, i in sides if found.alarms[i]]
    for title, spans in alarms:
        table = grid()
        for span in some_of(table, spans, MOST, screen):
            f = span.finding
            when = f"step {span.begin}" + ("" if span.end is None else f" to {span.end}")
            table.add_row(when, f.severity, f.name, label(f.site, SITE))
        yield from section(f"{title}: alarms", table)
    if found.settings:
        table = grid("", "first", "second", fold=True)
        for s in some_of(table, found.settings, MOST, screen):
            values = ("–" if side is None else printable(side) for side in (s.first, s.second))
            table.add_row(Text(printable(s.name)), *map(Text, values))
        yield from section("Settings that differ", table)
    table = grid()
    of = zip(found.runs, found.losses, found.loss_steps, found.steps, strict=True)
    for name, loss, step, last in of:
        value = "none was read" if loss is None else measured(loss)
        until = "" if step is None else f"of step {step}"
        until += f"; the run was read until step {last}" if until and last != step else ""
        table.add_row(label(name, SITE), value, Text(until, "dim"))
    yield from section("Last loss", table)

    # what could not be compared, or only in part
    if any(found.only) or found.unmatched or found.interpolated or found.unjudged:
        yield Text("", "dim")
    for name, sites in zip(found.runs, found.only, strict=True):
        if sites:
            more = f" and {len(sites) - MOST} more" if len(sites) > MOST else ""
            words = f"Only in {printable(name)}: {printable(', '.join(sites[:MOST]))}{more}."
            yield Text(words, "dim")
    if found.unmatched:
        words = "quantities of layers that both have were read in one run only."
        yield Text(f"{found.unmatched} {words}", "dim")
    if found.interpolated:
        words = (
            f"{found.interpolated} of {found.compared} trajectories share too few steps; the "
            "second run is interpolated at the steps of the first there."
        )
        yield Text(words, "dim")
    if found.unjudged:
        words = (
            f"{found.unjudged} of {found.compared} trajectories have fewer than two readings in "
            "common, so that their variation is not known; only bits are compared there."
        )
        yield Text(words, "dim")


def _headline(found: Parting) -> str:
    if not found.compared:
        return "The runs have no reading of the same quantity at the same place."
    if not found.parted:
        values = [loss.value for loss in found.losses if loss is not None]
        gap = abs(values[0] - values[1]) if len(values) == 2 else 0.0
        if gap > APART * max(map(abs, values), default=0.0):
            return (
                "Their last losses differ, and where they part does not show: of what both read, "
                "no difference leaves what step-to-step variation explains."
            )
        return "They do not part: no difference leaves what step-to-step variation explains."
    p = found.parted[0]
    sure = ", by which it is sure" if p.seen > p.step else ""
    return (
        f"They part at step {p.step}: {_what(p)} at {printable(p.site)} is "
        f"{measured(p.first)} and {measured(p.second)} at step {p.seen}{sure}."
    )


def _what(p: Parted) -> str:
    return f"{p.quantity} ({p.form})" if p.form else p.quantity


@form.register
def _parting_form(found: Parting) -> dict[str, Any]:
    names = (f.name for f in fields(found) if f.name != "differing")
    differing = [key._asdict() for key in found.differing]
    return {"schema": "sigmascope/parting/1", **some(found, *names), "differing": differing}


has_rows(Parting, "parted", Parted)


# ------------------------------------------------------------------------------
# Runs of training as figures.


PANELS = 6  # of a run, unless quantities are asked for
SHADES = "viridis"  # of layers, from the first to the last


@drawn.register
def _run_figure(
    run: Run, sheet: Sheet, *, quantities: str | Iterable[str] = (), **more: object
) -> None:
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
        for place, ((site, which), rows) in enumerate(sites.items()):
            alone = len(sites) == 1
            shade = COLOURS[0] if alone else colormaps[SHADES](place / (len(sites) - 1))
            name_of = " ".join(filter(None, (site, which))) if len(sites) <= 6 else ""
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
def _parting_figure(found: Parting, sheet: Sheet, **more: object) -> None:
    """The step from which each quantity differs, the first on top."""
    require_known(more)
    if not found.order:
        raise Refusal("The runs do not part, so that there is nothing to draw. `print` says more.")
    rows = []
    for p in found.order:
        what = f"{p.site} · {p.quantity}"
        rows.append((what, Estimate(p.step, p.step, max(p.step, p.seen), "decided by")))
    forest(sheet, rows, label="step from which the runs differ, to the step at which that is sure")
