"""The interactive page of a script: what it does in a step, what is wrong, and what proves it."""

import math
import os
import statistics
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from sigmascope.core import quantities as q
from sigmascope.core.guard import printable, printable_lines
from sigmascope.core.records import Finding
from sigmascope.diagnosis.scripts.diagnosing import Attempt, ScriptDiagnosis, ends
from sigmascope.diagnosis.scripts.presentation import (
    StepPart,
    course,
    in_order,
    lasted,
    left_out,
    steps_of,
    verdict,
)
from sigmascope.report.findings import headline
from sigmascope.report.pages import (
    Html,
    Piece,
    cards,
    compact,
    element,
    facts,
    joined,
    measured,
    named,
    number,
    packed_doubles,
    plural,
    severities,
    table,
    tile,
    write_page,
)

# In the order in which they build on one another; joined into one script.
_SCRIPTS = ("words.js", "packed.js", "page.js", "scales.js", "marks.js", "chart.js", "script.js")
_INKS = 7  # colours of lines


def script_page(found: ScriptDiagnosis, path: str | os.PathLike[str]) -> Path:
    """Write the diagnosis of a script as one HTML file that opens anywhere, without a network.

    Findings come first, with the lines to change, and lead to their line in what the script does in
    a step; its losses are drawn as it is, and with each thing that was changed. Names, exceptions
    and lines of the script are shown and never act.

    Args:
        found: What `diagnose_script` gave.
        path: The file to write; it appears complete or not at all.

    Returns:
        `path`.

    Raises:
        Refusal: If it cannot be written, or something else is there; what was there is as it was.
    """
    run, findings, meanings = found.run, found.findings, q.quantities()
    parts = steps_of(run)
    # the row of each line that a finding may name; of two files of one name neither has one
    files = Counter(name for name, _ in {(p.place.says, p.place) for p in parts if p.place})
    lines: dict[str, int] = {}
    for row, part in enumerate(parts):
        if part.place is not None and files[part.place.says] == 1:
            lines.setdefault(part.place.says, row)
    told: set[str] = set()  # of several findings of one name the first has the diff
    tones = {"+": "comes", "-": "goes", "@": "place"}
    tone = lambda line: "place" if line[:3] in ("+++", "---") else tones.get(line[:1])

    def way(place: int) -> Piece:
        """Lines to change, and the way to where a finding is seen."""
        finding, changed = findings[place], None
        diff = "" if finding.name in told else found.diffs.get(finding.name, "")
        told.add(finding.name)
        if diff:
            each = printable_lines(diff.rstrip("\n")).split("\n")
            code = (element("span", line or " ", class_=tone(line)) for line in each)
            shown = element("pre", *code, class_="code", tabindex="0")
            changed = element("div", element("h4", "Lines to change"), shown, class_="change")
        row = lines.get(finding.site)
        tried = any(r.quantity == q.LOSS_AVOIDED for r in finding.evidence)
        leads = {
            "Show in the step": None if row is None else f"#line-{row}",
            "Show the losses": "#again" if tried else None,
        }
        ways = (element("a", say, class_="button", href=to) for say, to in leads.items() if to)
        return joined([changed, element("div", *ways, class_="controls")])

    order = (
        "In the order in which the lines stand, each with what happens there."
        if in_order(run)
        else "In the usual order, for the lines stand in several functions or files."
    )
    none, left = "No findings in what was looked at.", left_out(found)
    drawn, keys = [*_lines(found)], list[Html]()
    for place, line in enumerate(drawn):  # a button for each, by which it is shown or not
        looks = {"style": f"--tone: var(--c{place % _INKS})", "data_line": str(place)}
        pressed = "false" if line.get("aside") else "true"
        key = element("button", line["says"], type="button", aria_pressed=pressed, **looks)
        keys.append(key)
    there = {"drawn": drawn, "tried": found.attempts, "again": drawn or found.attempts}
    pieces = {
        **{name: Html("" if is_there else "hidden") for name, is_there in there.items()},
        "name": joined([found.script.name]),
        "summary": joined([f"{lasted(run)} {course(run)}"]),
        "tiles": joined(_tiles(found)),
        "error": _error(found),
        "headline": joined([headline(findings) if findings else ""]),
        "cards": joined(
            cards(
                findings,
                none,
                meant=lambda quantity: meanings[quantity].says if quantity in meanings else "",
                way=way,
            )
        ),
        "order": joined([order]),
        "step": _step(parts, findings, lines),
        "keys": joined(keys),
        "attempts": _attempts(found) if found.attempts else Html(),
        "missing": joined(
            element("li", each[:1].upper() + each[1:]) for each in left or ["Nothing was left out."]
        ),
        "about": facts(_about(found)),
    }
    return write_page(
        path,
        title=printable(found.script.name),
        data={"lines": drawn},
        pieces=pieces,
        template="script.html",
        scripts=_SCRIPTS,
        styles=("page.css", "grid.css", "script.css"),
    )


# ------------------------------------------------------------------------------
# Losses: of the script as it is, and with one thing changed.


def _lines(found: ScriptDiagnosis) -> Iterator[dict[str, Any]]:
    """As it is first; what else the script goes back from is drawn when it is asked for."""
    run, own = found.run, found.run.compared.loss
    if own is not None and any(len(a.values) > len(own.values) for a in found.attempts):
        own = run.loss  # for there are others that are as long
    several = sum(bool(loss.values) for loss in run.losses.values()) > 1
    where = lambda place: f", backward pass at {place.says}" if several and place else ""
    if own is not None and own.values:
        yield _line(f"as it is{where(own.place)}", own.values)
    for attempt in found.attempts:
        if attempt.values:
            yield _line(attempt.says, attempt.values)
    for loss in run.losses.values():
        more = run.early is not None and loss is run.loss is not own
        if more:
            yield {**_line("as it is, all of it", loss.values), "aside": True}
        elif loss.values and loss is not own and (own is None or loss.place != own.place):
            yield {**_line(f"as it is{where(loss.place)}", loss.values), "aside": True}


def _line(says: str, values: Any) -> dict[str, Any]:
    return {"says": says, "values": packed_doubles(values)}


def _attempts(found: ScriptDiagnosis) -> Html:
    heads = ("changed", "loss as it is", "with it", "avoided", "seeds", "")
    says = ("", "the last loss, of the first seed", "the same", q.quantities()[q.LOSS_AVOIDED].says)

    def row(a: Attempt) -> list[Piece]:
        before, after = (compact(side[0]) if side else "–" for side in (a.before, a.after))
        known = math.isfinite(a.avoided.low)
        gain = number(a.avoided) if known else compact(a.avoided.value, digits=3)
        tone = "verdict holds" if a.helps else "verdict vacuous"
        return [
            a.says,
            before,
            after,
            gain,
            str(len(a.after)),
            element("td", verdict(a), class_=tone),
        ]

    return table(heads, map(row, found.attempts), says=says)


# ------------------------------------------------------------------------------
# What stands on the page as it is.


def _tiles(found: ScriptDiagnosis) -> Iterator[Html]:
    run = found.run
    yield from severities(found.findings)
    yield tile(plural(run.steps, "step"), str(run.steps))
    first, last = ends(run)
    if not math.isnan(first):
        yield tile("loss, first and last", f"{compact(first)} → {compact(last)}")
    if run.step_seconds:
        usual = 1e3 * statistics.median(run.step_seconds)
        yield tile("from one step to the next, usually", f"{compact(usual, digits=3)} ms")
    for best in found.cures()[:1]:
        title = f"of the first loss avoided with {best.says}"
        yield tile(title, measured(best.avoided), "good")


def _error(found: ScriptDiagnosis) -> Html:
    if found.run.error is None:
        return Html()
    kind, _, trace = found.run.error
    head = element("p", "It ended with an error of its own, ", element("strong", kind), ".")
    code = None
    if trace:  # `element` would take the ends of lines for what does not print
        lines = printable_lines(trace.rstrip()).split("\n")
        pieces = (piece for line in lines for piece in (Html("\n"), line))
        code = element("pre", joined([*pieces][1:]), class_="code", tabindex="0")
    return element("div", head, code, class_="empty trouble")


def _step(parts: list[StepPart], findings: tuple[Finding, ...], lines: Mapping[str, int]) -> Html:
    """A step from its first line to its last; where a finding is, it is said."""
    at: dict[int, list[Finding]] = {}
    for finding in findings:
        if finding.site in lines:
            at.setdefault(lines[finding.site], []).append(finding)
    rows = list[Html]()
    for row, part in enumerate(parts):
        if part.word == "time":
            continue
        here, place = at.get(row, []), part.place
        marks = (
            element("span", f"{f.severity}: {f.name}", class_=f"mark {f.severity}") for f in here
        )
        code = element("code", place.text) if place is not None and place.text else None
        line = None if place is None else joined([named(place.says), code])
        head = element("div", element("strong", part.word), line, *marks)
        tone = here[0].severity if here else None
        does = element("p", part.says, class_="does")
        rows.append(element("li", head, does, class_=tone, id=f"line-{row}"))
    time = next((part.says for part in parts if part.word == "time"), "")
    last = element("li", element("p", time, class_="does"), class_="whole") if time else None
    return joined([*rows, last])


def _about(found: ScriptDiagnosis) -> Iterator[tuple[str, str]]:
    script, run = found.script, found.run
    yield "Script", script.target
    if script.arguments:
        yield "Arguments", " ".join(script.arguments)
    if script.folder:
        yield "Run in", script.folder
    yield (
        "Steps",
        f"{run.steps}, and {run.backwards} backward {plural(run.backwards, 'pass', 'passes')}",
    )
    for m in run.modules:
        if m.parameters:
            yield "Model", f"{m.kind} of {m.parameters:,} numbers"
    for o in run.optimizers:
        options = ", ".join(f"{name} {value:g}" for name, value in o.options.items() if value)
        made = f", made at {o.made.says}" if o.made else ""
        yield "Optimizer", f"{o.kind}{made}{f': {options}' if options else ''}"
