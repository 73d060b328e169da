"""The page of a run of training, over steps: one that follows it, and one that is a file."""

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from sigmascope.core import quantities as q
from sigmascope.core.guard import printable
from sigmascope.report.pages import (
    Html,
    card,
    compact,
    element,
    joined,
    named,
    options,
    page_text,
    plural,
    reasons,
    tile,
    write_page,
)
from sigmascope.watching import AlarmSpan

# In the order in which they build on one another; joined into one script.
_SCRIPTS = (
    "words.js",
    "packed.js",
    "page.js",
    "scales.js",
    "marks.js",
    "chart.js",
    "runs.js",
    "run_curves.js",
    "run.js",
)
_LOOK: dict[str, Any] = {
    "template": "run.html",
    "scripts": _SCRIPTS,
    "styles": ("page.css", "grid.css", "run.css"),
}
_LANES = 14  # of the timeline, the latest
_LISTED = 30  # alarms; more are counted


@dataclass(frozen=True, slots=True, kw_only=True)
class Told:
    """What is said of a run above its curves.

    Attributes:
        name: Of its file.
        step: The last one; None before the first.
        time: When that was committed, as ISO 8601.
        rows: How many rows of all tables were read.
        about: The circumstances.
        places: How many layers there are, or else places at which something was read.
        layers: Whether they are layers.
        loss: The last loss, with its step.
        sites: At which something was read.
        alarms: In the order in which they began.
        skipped: From which step on what was left out of which site, and why.
        note: What became of the file.
        trouble: What is wrong with it.
        reading: Whether more of the file is left to read.
        panels: Titles of what is drawn over steps, by key.
        spectra: Names and kinds of the matrices that have spectra, in the order of their depth.
    """

    name: str
    step: int | None = None
    time: str = ""
    rows: int = 0
    about: Mapping[str, str] = field(default_factory=dict)
    places: int = 0
    layers: bool = False
    loss: tuple[float, float] | None = None
    sites: frozenset[str] = frozenset()
    alarms: Sequence[AlarmSpan] = ()
    skipped: Mapping[tuple[str, str, str], int] = field(default_factory=dict)
    note: str = ""
    trouble: str = ""
    reading: bool = False
    panels: Mapping[str, str] = field(default_factory=dict)
    spectra: Mapping[str, tuple[str, str]] = field(default_factory=dict)


def key_of(*parts: str) -> str:
    """By which the scripts know a panel or a spectrum."""
    return printable(json.dumps(parts))


def live_text(told: Sequence[Told]) -> str:
    """The page that asks its server for one run or two, and for what is new in them.

    Args:
        told: What is known of the runs so far.
    """
    names = [run.name for run in told]
    data = {"live": True, "runs": [{"name": name} for name in names]}
    title, words = _title(names), pieces(told, live=True)
    foot = "Served by sigmascope on this machine alone. Curves are thinned to what a screen shows."
    words["foot"] = joined([foot.replace("shows.", "shows, and keep their extremes.")])
    words["none"] = joined(["No spectrum was filed yet."])
    return page_text(title=title, data=data, pieces=words, live=True, **_LOOK)


def run_page(
    path: str | os.PathLike[str], runs: Sequence[dict[str, Any]], told: Sequence[Told]
) -> Path:
    """Write the page of one run or two as one HTML file.

    Args:
        path: The file to write; it appears complete or not at all.
        runs: What is in each: its state, the columns of its panels and its spectra.
        told: What is said of each.

    Raises:
        Refusal: If it cannot be written, or something else is there; what was there is as it was.
    """
    data, words = {"live": False, "runs": list(runs)}, pieces(told, live=False)
    words["foot"] = joined([_FOOT])
    words["none"] = joined(["No spectrum was filed."])
    return write_page(path, title=_title([r.name for r in told]), data=data, pieces=words, **_LOOK)


_FOOT = (
    "Written by sigmascope. This file is complete: it needs no network and sends nothing. Curves "
    "are thinned to what a screen shows, and keep their extremes; the run file has every digit."
)


def pieces(told: Sequence[Told], *, live: bool) -> dict[str, Html]:
    """HTML of all that is no chart, by the elements that hold it.

    Args:
        told: What is said of each run.
        live: Whether the page follows them.
    """
    several = len(told) > 1
    by = lambda run: f"{run.name}: " if several else ""
    words = "; ".join(f"{by(run)}{_state(run, live=live)}" for run in told)
    lead = "Following. " if live else ""
    trouble = (
        element("p", f"{by(run)}{said}", class_=f"empty trouble{bad}")
        for run in told
        for said, bad in ((run.note, ""), (run.trouble, " bad"))
        if said
    )
    tiles: list[Html] = []
    for run in told:
        if run.step is None:
            continue
        of = f", {run.name}" if several else ""
        now = [s.finding.severity for s in run.alarms if s.end is None]
        tone = next((kind for kind in ("error", "warning") if kind in now), "" if now else "good")
        tiles.append(tile(f"last step{of}", compact(run.step)))
        if run.loss:
            said = f"loss of step {compact(run.loss[0])}{of}"
            tiles.append(tile(said, compact(run.loss[1])))
        tiles.append(tile(f"{plural(len(now), 'alarm')} in force{of}", str(len(now)), tone))
        if run is told[0]:
            layers = plural(run.places, "layer" if run.layers else "place")
            tiles.append(tile(layers, str(run.places)))
    panels = {key: title for run in told for key, title in run.panels.items()}
    matrices = {key: one for run in told for key, one in run.spectra.items()}
    kinds = {kind for _, kind in matrices.values()}
    left: dict[tuple[str, str], list[str]] = {}
    for run in told:
        for (site, what, why), step in run.skipped.items():
            left.setdefault((what, f"{why} (from step {step} on)"), []).append(site)
    names = [*dict.fromkeys(name for run in told for name in run.about)]
    heads = ["setting", *(run.name for run in told)] if several else []
    lines = []
    for name in names:
        values = [run.about.get(name, "–") for run in told]
        cells = (element("td", value) for value in values)
        differs = "differs" if len({*values}) > 1 else None
        lines.append(element("tr", element("th", name, scope="row"), *cells, class_=differs))
    head = element("tr", *(element("th", each, scope="col") for each in heads))
    settings = element("table", element("thead", head) if heads else None, element("tbody", *lines))
    no_word = element("p", "No word about the circumstances was filed.")
    return {
        "name": joined([" and ".join(run.name for run in told)]),
        "status": joined([f"{lead}{words if several else words[:1].upper() + words[1:]}."]),
        "troubles": joined(trouble),
        "tiles": joined(tiles),
        "alarmed": _alarms(told),
        "quantity": options(panels.items()),
        "matrix": options(
            (key, f"{site} ({kind})" if len(kinds) > 1 else site)
            for key, (site, kind) in matrices.items()
        ),
        "words": settings if names else no_word,
        "skipped": reasons(left, "Nothing was left out."),
    }


def _state(run: Told, *, live: bool) -> str:
    if run.step is None:
        return "waiting for the first reading" if live else "no reading"
    if run.reading:
        return f"reading the file, {run.rows:,} rows so far"
    time = datetime.fromisoformat(run.time)
    if not live:
        return f"until step {run.step}, {time.astimezone(UTC):%Y-%m-%d %H:%M} UTC"
    seconds = (datetime.now(UTC) - time).total_seconds()
    for size, most, unit in ((1, 90, "s"), (60, 5400, "minutes"), (3600, 172_800, "hours")):
        if seconds < most:
            return f"step {run.step}, {max(0, round(seconds / size))} {unit} ago"
    return f"step {run.step}, {round(seconds / 86_400)} days ago"


# ------------------------------------------------------------------------------
# Alarms: bars on an axis of steps, and what each says and advises.


def _alarms(told: Sequence[Told]) -> Html:
    every = [(run, span) for run in told for span in run.alarms]
    late = sorted(every, key=lambda each: -each[1].begin)
    now = [each for each in late if each[1].end is None]
    over = [each for each in late if each[1].end is not None]
    several = len(told) > 1
    cards = [_card(*each, several=several) for each in now[:_LISTED]]
    if len(now) > _LISTED:
        cards.append(element("p", f"and {len(now) - _LISTED} more in force", class_="hint"))
    if over:
        said = element("summary", f"{len(over)} {plural(len(over), 'alarm')} ended")
        past = [_card(*each, several=several) for each in over[:_LISTED]]
        if len(over) > _LISTED:
            past.append(element("p", f"and {len(over) - _LISTED} before", class_="hint"))
        inside = element("div", *past, class_="cards")
        opened = None if now else ""
        cards.append(element("details", said, inside, class_="past", id="past", open=opened))
    if not every:
        known = any(run.step is not None for run in told)
        words = "No alarm was raised." if known else "Nothing was read yet."
        return element("p", words, id="quiet", class_="empty")

    # alarms of one name at one place share a lane; the page says from where to where it looks
    last = max(run.step or 0 for run, _ in every)
    lanes: dict[tuple[str, str, str], list[tuple[Told, AlarmSpan]]] = {}
    for run, span in sorted(every, key=lambda each: each[1].begin):
        lanes.setdefault((run.name, span.finding.name, span.finding.site), []).append((run, span))
    lines = []
    for (name, rule, site), spans in [*lanes.items()][-_LANES:]:
        bars = []
        for _, span in spans:
            ends = f"--begin: {span.begin}; --end: {last if span.end is None else span.end}"
            tone = f"--tone: var(--{span.finding.severity})"
            ended = None if span.end is None else "over"
            bars.append(element("i", class_=ended, style=f"{ends}; {tone}"))
        when = ", ".join(_lasted(span) for _, span in spans)
        words = element(
            "span", rule, " · ", named(site), f" · {when}{f', {name}' if several else ''}"
        )
        lines.append(element("li", words, *bars, style=f"--begin: {spans[0][1].begin}"))
    timeline = element("ol", *lines, class_="panel timeline", aria_label="Alarms over steps")
    return joined([timeline, element("div", *cards, id="cards", class_="cards")])


def _lasted(span: AlarmSpan) -> str:
    since = f"since step {span.begin}"
    return since if span.end is None else f"step {span.begin} to {span.end}"


def _card(run: Told, span: AlarmSpan, *, several: bool) -> Html:
    finding, when = span.finding, f"{_lasted(span)}{f', {run.name}' if several else ''}"
    first = finding.evidence[0] if finding.evidence else None
    key = key_of(first.quantity, first.view, first.form) if first else None
    lead = json.dumps([key, finding.site])
    way = element("button", "See it in the curves", type="button", class_="button", data_alarm=lead)
    known = q.quantities()
    return card(
        finding,
        meant=lambda quantity: known[quantity].says if quantity in known else "",
        way=way if first or finding.site in run.sites else None,
        when=element("span", when, class_="when"),
        over=span.end is not None,
    )


def _title(names: Sequence[str]) -> str:
    return printable(" and ".join(names))
