"""How the diagnosis of a script looks: text, JSON and rows."""

import math
import statistics
from collections.abc import Iterator
from dataclasses import fields
from typing import Any

from rich.table import Table
from rich.text import Text

from sigmascope.gate import printable, printable_lines
from sigmascope.records import Finding
from sigmascope.records.encoding import encoded, strict
from sigmascope.report.console import Code, Part, compact, measured, sparkline
from sigmascope.report.findings import told
from sigmascope.report.forms import form
from sigmascope.report.screens import Screen, grid, parts, section
from sigmascope.report.tables import columns, row_columns
from sigmascope.scripts.diagnosing import Attempt, ScriptDiagnosis, ends, learned
from sigmascope.scripts.observing import Observation
from sigmascope.scripts.seen import Called, Line, LossSeen, OptimizerSeen, ScriptRun

LINE = 40  # columns of a line's text
WIDE = 28  # columns of a curve


def steps_of(run: ScriptRun) -> Iterator[tuple[str, str, str]]:
    """What a script does in a step: a word, where it is, and what happens there."""
    for m in run.modules:
        if m.in_training + m.in_evaluation and m.parameters:
            yield "model", _at(m.place), _model(m)
    for (name, _, shapes, place), count in run.comparisons.most_common(3):
        both = " and ".join(map(_shape, shapes))
        yield "loss", _at(place), f"{name} of {both}, {count} x"
    for loss in run.losses.values():
        yield "backward", _at(loss.place), _loss(loss)
    for o in run.optimizers:
        if o.zeroed is not None:
            yield "zero_grad", _at(o.zeroed), "gradients emptied"
    for place, limit, _ in run.clipped[:1]:
        norms = [n for *_, n in run.clipped if math.isfinite(n)]
        usual = f", usually {compact(statistics.median(norms), digits=3)}" if norms else ""
        yield "clipping", _at(place), f"norm to {limit:g}{usual}"
    for o in run.optimizers:
        yield "step", _at(o.place), _optimizer(o)
    for (kind, place), count in run.scheduled.items():
        yield "scheduler", _at(place), f"{kind}, {count} x"
    for loader in run.loaders.values():
        size = "" if loader.count is None else f", {loader.count} batches"
        yield "data", _at(loader.place), f"{loader.sampler}{size}, begun {loader.begun} x"
    if run.step_seconds:
        usual = 1e3 * statistics.median(run.step_seconds)
        yield "time", "", f"{compact(usual, digits=3)} ms from one step to the next"


def _at(place: Line | None) -> str:
    return "" if place is None else printable(place.says)


def _shape(shape: Any) -> str:
    return "[" + ", ".join(map(str, shape)) + "]"


def _model(m: Called) -> str:
    inputs, outputs = (" and ".join(map(_shape, shapes)) for shapes in m.shapes)
    calls = m.in_training + m.in_evaluation
    mode = "training mode" if m.in_training >= m.in_evaluation else "evaluation mode"
    frozen = f", {m.frozen:,} of them frozen" if m.frozen else ""
    through = f", {inputs} → {outputs}" if outputs else ""
    return f"{m.kind} of {m.parameters:,} numbers{frozen}{through}, {mode}, {calls} x"


def _loss(loss: LossSeen) -> str:
    if not loss.values:
        return "no value was read"
    ends_of = f"{compact(loss.values[0])} → {compact(loss.values[-1])}"
    return f"{sparkline(loss.values, width=WIDE)}  {ends_of}, {len(loss.values)} x"


def _optimizer(o: OptimizerSeen) -> str:
    low, high = (min(o.rates), max(o.rates)) if o.rates else (math.nan, math.nan)
    rate = f"{low:g}" if low == high else f"{o.rates[0]:.3g} to {o.rates[-1]:.3g}"
    moved = f", weights moved by {max(o.moved):.2g} of their size at most" if o.moved else ""
    return f"{o.kind}, rate {rate}, {o.steps} x{moved}"


@parts.register
def _script(found: ScriptDiagnosis, screen: Screen) -> Iterator[Part]:
    """How far it came, what it does in a step, what is wrong, what was tried."""
    run = found.run
    name = printable(found.script.target.rpartition("/")[2])
    end = "then it was stopped" if run.stopped else "then it ended by itself"
    yield Text(f"{name}: {run.steps} steps in {run.seconds:.1f} s, {end}.", "bold")
    yield Text(_course(run))
    if run.error is not None:
        yield Text(f"It ended with an error of its own, {run.error[0]}:", "bold yellow")
        yield Code(printable_lines(run.error[2].rstrip()))
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
        yield from section("The script again, with one thing changed", _attempts(found))
    left = [*found.unlooked, *(f"for want of time: {says}" for says in found.untried)]
    if left:
        yield from ("", Text(f"Not looked at: {printable('; '.join(left))}.", "dim"))


def _course(run: ScriptRun) -> str:
    first, last = ends(run)
    if math.isnan(first):
        return "No loss was read."
    far = "falls" if learned(run) else "does not fall by a tenth"
    return f"The loss {far} in these steps: {compact(first)} → {compact(last)}."


def _table(run: ScriptRun) -> Table:
    table = grid("", "", "", fold=True)
    table.show_header = False
    for word, where, says in steps_of(run):
        table.add_row(Text(word, "dim"), Text(where), Text(says))
    return table


def _attempts(found: ScriptDiagnosis) -> Table:
    heads = ("loss as it is", "with it", "avoided")
    table = grid("changed", *heads, "", right=heads, fold=True)
    for a in found.attempts:
        several = math.isfinite(a.avoided.low)
        verdict = "helps" if a.helps else "no more than chance" if several else "does not"
        gain = measured(a.avoided) if several else compact(a.avoided.value, digits=3)
        losses = (compact(side[0]) for side in (a.before, a.after))
        table.add_row(Text(a.says), *losses, gain, Text(verdict, "dim"))
    return table


@parts.register
def _observation(seen: Observation, screen: Screen) -> Iterator[Part]:
    """What a block does in a step, and what speaks against it."""
    run = seen.run
    yield Text(f"{run.steps} steps in {run.seconds:.1f} s. {_course(run)}", "bold")
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
    return {
        "schema": "sigmascope/script/1",
        "script": encoded(found.script.target),
        "arguments": list(found.script.arguments),
        "steps": run.steps,
        "seconds": run.seconds,
        "stopped": run.stopped,
        "error": None if run.error is None else {"kind": run.error[0], "says": run.error[1]},
        "findings": encoded(found.findings),
        "step": [{"what": w, "where": at, "says": says} for w, at, says in steps_of(run)],
        "losses": [
            {"place": where(seen.place), "values": [strict(v) for v in seen.values]}
            for seen in run.losses.values()
        ],
        "attempts": [_attempt_form(a) for a in found.attempts],
        "diffs": dict(found.diffs),
        "unlooked": list(found.unlooked),
        "untried": list(found.untried),
    }


def _attempt_form(attempt: Attempt) -> dict[str, Any]:
    plain = {f.name: getattr(attempt, f.name) for f in fields(attempt) if f.name != "avoided"}
    numbers = {k: [strict(v) for v in w] for k, w in plain.items() if isinstance(w, tuple)}
    return {
        **plain,
        **numbers,
        "first": strict(attempt.first),
        "avoided": encoded(attempt.avoided),
        "helps": attempt.helps,
    }


@columns.register
def _script_columns(found: ScriptDiagnosis) -> dict[str, list[Any]]:
    return row_columns(Finding, found.findings)
