"""How the diagnosis of a script looks: text, JSON and rows."""

import ast
import math
import statistics
from collections.abc import Iterator
from pathlib import Path
from textwrap import indent
from typing import Any, NamedTuple

from rich.table import Table
from rich.text import Text

from sigmascope.core.encoding import encoded, strict
from sigmascope.core.guard import printable, printable_lines
from sigmascope.core.records import Finding
from sigmascope.diagnosis.scripts import figures as figures
from sigmascope.diagnosis.scripts.diagnosing import Attempt, ScriptDiagnosis, ends, learned
from sigmascope.diagnosis.scripts.observing import Observation
from sigmascope.diagnosis.scripts.seen import Line, ScriptRun
from sigmascope.report.console import Code, Part, compact, measured, sparkline
from sigmascope.report.findings import told
from sigmascope.report.results import Screen, form, grid, has_rows, parts, section

WIDE = 28  # columns of a curve
# of a step, as most scripts have it
USUAL = ("data", "zero_grad", "model", "loss", "backward", "clipping", "step", "scheduler", "time")


class StepPart(NamedTuple):
    """One thing that a script does in a step.

    Attributes:
        word: What it is; `time` stands for the whole.
        place: Its line, where it is known.
        says: What happens there.
    """

    word: str
    place: Line | None
    says: str


def steps_of(run: ScriptRun) -> list[StepPart]:
    """What a script does in a step, in the order of its lines; and how long that takes.

    Lines of several functions have no order of their own: there it is the usual one (`in_order`).

    Args:
        run: What was seen of it.
    """
    found = sorted(_parts_of(run), key=lambda part: USUAL.index(part.word))
    if in_order(run):  # of one line, the usual order again
        found.sort(key=lambda part: math.inf if part.place is None else part.place.line)
    return found


def in_order(run: ScriptRun) -> bool:
    """Whether all that is done in a step stands in one function, whose lines then tell the order.

    Args:
        run: What was seen of it.
    """
    places = {part.place for part in _parts_of(run) if part.place is not None}
    files = {place.file for place in places}
    if len(files) != 1:
        return False
    try:
        tree = ast.parse(Path(*files).read_text(encoding="utf-8"))
    except (OSError, ValueError, SyntaxError):  # it is gone, or was never a file
        return False
    own = (ast.FunctionDef, ast.AsyncFunctionDef)
    spans = [(n.lineno, n.end_lineno or n.lineno) for n in ast.walk(tree) if isinstance(n, own)]
    inner = {max((a for a, b in spans if a <= p.line <= b), default=0) for p in places}
    return len(inner) == 1


def _parts_of(run: ScriptRun) -> Iterator[StepPart]:
    looked = sum(o.looked for o in run.optimizers)
    among = f" in the {looked} steps looked at" if 0 < looked < run.steps else ""
    for loader in run.loaders.values():
        size = "" if loader.count is None else f", {loader.count} batches"
        yield StepPart("data", loader.place, f"{loader.sampler}{size}, begun {loader.begun} x")
    for o in run.optimizers:
        if o.zeroed is not None:
            yield StepPart("zero_grad", o.zeroed, "gradients emptied")
    for m in run.modules:
        calls = m.in_training + m.in_evaluation
        if not calls or not m.parameters:
            continue
        inputs, outputs = (" and ".join(map(_shape, shapes)) for shapes in m.shapes)
        mode = "training mode" if m.in_training >= m.in_evaluation else "evaluation mode"
        frozen = f", {m.frozen:,} of them frozen" if m.frozen else ""
        through = f", {inputs} → {outputs}" if outputs else ""
        says = f"{m.kind} of {m.parameters:,} numbers{frozen}{through}, {mode}, {calls} x{among}"
        yield StepPart("model", m.place, says)
    for (name, _, shapes, place), count in run.comparisons.most_common(3):
        both = " and ".join(map(_shape, shapes))
        yield StepPart("loss", place, f"{name} of {both}, {count} x{among}")
    for loss in run.losses.values():
        says = "no value was read"
        if values := loss.values:
            course_of = f"{sparkline(values, width=WIDE)}  {compact(values[0])}"
            says = f"{course_of} → {compact(values[-1])}, {len(values)} x"
        yield StepPart("backward", loss.place, says)
    for place, limit, _ in run.clipped[:1]:
        norms = [n for *_, n in run.clipped if math.isfinite(n)]
        usual = f", usually {compact(statistics.median(norms), digits=3)}" if norms else ""
        yield StepPart("clipping", place, f"norm to {limit:g}{usual}")
    for o in run.optimizers:
        rate = f", rate {o.rates[0]:g}" if o.rates else ""
        if o.rates and min(o.rates) != max(o.rates):
            rate = f", rate {o.rates[0]:.3g} to {o.rates[-1]:.3g}"
        moved = f", weights moved by {max(o.moved):.2g} of their size at most" if o.moved else ""
        yield StepPart("step", o.place, f"{o.kind}{rate}, {o.steps} x{moved}")
    for (kind, place), count in run.scheduled.items():
        if place is not None and f"{kind}(" in place.text:
            continue  # the step that it makes when it is made
        yield StepPart("scheduler", place, f"{kind}, {count} x")
    if run.step_seconds:
        usual = 1e3 * statistics.median(run.step_seconds)
        yield StepPart("time", None, f"{compact(usual, digits=3)} ms from one step to the next")


def _at(place: Line | None) -> str:
    return "" if place is None else printable(place.says)


def _shape(shape: Any) -> str:
    return "[" + ", ".join(map(str, shape)) + "]"


@parts.register
def _script(found: ScriptDiagnosis, screen: Screen) -> Iterator[Part]:
    """How far it came, what it does in a step, what is wrong, what was tried."""
    run = found.run
    name = printable(found.script.name)
    yield Text(f"{name}: {lasted(run)}", "bold")
    yield Text(course(run))
    if run.error is not None:
        yield Text(f"It ended with an error of its own, {run.error[0]}:", "bold yellow")
        # indented, so that none of its lines can pass for one of ours
        yield Code(indent(printable_lines(run.error[2].rstrip()), "  "))
    yield ""
    if found.findings:
        yield from told(found.findings, screen)
    else:
        style = "yellow" if run.error or found.unlooked else "bold green"
        yield Text("No findings in what was looked at.", style)
    for name, diff in found.diffs.items():
        yield from ("", Text(f"Lines to change ({name})", "bold"), Code(diff.rstrip("\n")))
    yield from section("What the script does in a step", _table(run))
    if found.attempts:
        heads = ("loss as it is", "with it", "avoided")
        table = grid("changed", *heads, "", right=heads, fold=True)
        for a in found.attempts:
            several = math.isfinite(a.avoided.low)
            gain = measured(a.avoided) if several else compact(a.avoided.value, digits=3)
            losses = (compact(side[0]) for side in (a.before, a.after))
            table.add_row(Text(a.says), *losses, gain, Text(verdict(a), "dim"))
        yield from section("The script again, with one thing changed", table)
    if left := left_out(found):
        yield from ("", Text(f"Not looked at: {printable('; '.join(left))}.", "dim"))


def lasted(run: ScriptRun) -> str:
    """How far a script came, and how it ended."""
    end = "then it was stopped" if run.stopped else "then it ended by itself"
    return f"{run.steps} steps in {run.seconds:.1f} s, {end}."


def left_out(found: ScriptDiagnosis) -> list[str]:
    """What was not looked at, and what there was no time for."""
    return [*found.unlooked, *(f"for want of time: {says}" for says in found.untried)]


def course(run: ScriptRun) -> str:
    """Where the loss went."""
    first, last = ends(run)
    if run.loss is None or not run.loss.values:
        return "No loss was read."
    far = "falls" if learned(run) else "does not fall by a tenth"
    return f"The loss {far} in these steps: {compact(first)} → {compact(last)}."


def _table(run: ScriptRun) -> Table:
    table = grid("", "", "", fold=True)
    table.show_header = False
    for word, place, says in steps_of(run):
        table.add_row(Text(word, "dim"), Text(_at(place)), Text(says))
    return table


def verdict(attempt: Attempt) -> str:
    """What an attempt came to, in a word."""
    if attempt.helps or attempt.once:
        return "helps" if attempt.helps else "tried once"
    several = math.isfinite(attempt.avoided.low)
    return "no more than chance" if several else "does not help"


@parts.register
def _observation(seen: Observation, screen: Screen) -> Iterator[Part]:
    """What a block does in a step, and what speaks against it."""
    run = seen.run
    yield Text(f"{run.steps} steps in {run.seconds:.1f} s. {course(run)}", "bold")
    yield ""
    if seen.findings:
        yield from told(seen.findings, screen)
    else:
        yield Text("No findings in what the loop did.", "bold green")
    yield from section("What it does in a step", _table(run))


@form.register
def _script_form(found: ScriptDiagnosis) -> dict[str, Any]:
    run = found.run
    where = lambda place: None if place is None else {"file": place.file, "line": place.line}
    numbers = lambda a, *names: {k: [strict(v) for v in getattr(a, k)] for k in names}
    return {
        "schema": "sigmascope/script/2",
        "script": encoded(found.script.target),
        "arguments": list(found.script.arguments),
        "steps": run.steps,
        "seconds": run.seconds,
        "stopped": run.stopped,
        "error": None if run.error is None else {"kind": run.error[0], "says": run.error[1]},
        "findings": encoded(found.findings),
        "step": [{"what": w, "where": _at(at), "says": says} for w, at, says in steps_of(run)],
        "losses": [
            {"place": where(seen.place), "values": [strict(v) for v in seen.values]}
            for seen in run.losses.values()
        ],
        "attempts": [
            {
                "name": a.name,
                "says": a.says,
                **numbers(a, "before", "after"),
                "first": strict(a.first),
                **numbers(a, "values"),
                "avoided": encoded(a.avoided),
                "helps": a.helps,
            }
            for a in found.attempts
        ],
        "diffs": dict(found.diffs),
        "unlooked": list(found.unlooked),
        "untried": list(found.untried),
    }


has_rows(ScriptDiagnosis, "findings", Finding)
