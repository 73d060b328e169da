"""Lines of a script to change, as a unified diff of the user's own file.

Only where the line is known from what happened, and what stands there is the call itself on a line
of its own: else nothing is said, and the remedy in words must do.
"""

import difflib
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

from sigmascope.records import Finding
from sigmascope.scripts.rules import (
    DWINDLING_RATE,
    EVALUATION_MODE,
    GRADIENTS_NOT_ZEROED,
    STEP_BEFORE_BACKWARD,
    ZEROED_BEFORE_STEP,
)
from sigmascope.scripts.seen import Line, ScriptRun

STEP = re.compile(r"^([A-Za-z_][\w.\[\]'\"]*)\.step\(")
CALL = re.compile(r"([A-Za-z_][\w.]*)\(")
OTHERS = frozenset({"F", "torch", "nn", "criterion", "float", "len", "print"})  # no model
Lines = list[str]


def diffs_of(run: ScriptRun, findings: Sequence[Finding]) -> dict[str, str]:
    """A diff for each finding whose lines are known.

    Args:
        run: Where it was found.
        findings: What was found.
    """
    return {name: _diff(*change) for name, change in _changes(run, findings)}


def first_change(run: ScriptRun, findings: Sequence[Finding]) -> str | None:
    """The script with the lines of the first finding changed that has any; None where none has."""
    return next(("".join(after) for _, (_, _, after) in _changes(run, findings)), None)


def _changes(
    run: ScriptRun, findings: Sequence[Finding]
) -> Iterator[tuple[str, tuple[Path, Lines, Lines]]]:
    made: Mapping[str, Callable[[ScriptRun], tuple[Path, Lines, Lines] | None]] = {
        GRADIENTS_NOT_ZEROED.name: _zero_grad,
        ZEROED_BEFORE_STEP.name: _zero_later,
        STEP_BEFORE_BACKWARD.name: _step_later,
        DWINDLING_RATE.name: _without_scheduler,
        EVALUATION_MODE.name: _train,
    }
    for name in dict.fromkeys(f.name for f in findings if f.name in made):
        change = made[name](run)
        if change is not None:
            yield name, change


def _diff(file: Path, before: Lines, after: Lines) -> str:
    name = file.name
    lines = difflib.unified_diff(before, after, f"a/{name}", f"b/{name}", n=2)
    return "".join(lines)


def _read(place: Line | None) -> tuple[Path, Lines] | None:
    if place is None or not Path(place.file).is_file():
        return None
    lines = Path(place.file).read_text(encoding="utf-8").splitlines(keepends=True)
    return (Path(place.file), lines) if place.line <= len(lines) else None


def _indent(line: str) -> str:
    return line[: len(line) - len(line.lstrip())]


def _zero_grad(run: ScriptRun) -> tuple[Path, Lines, Lines] | None:
    main = next((o for o in run.optimizers if o.old), None)
    read = _read(main.backward) if main else None
    if main is None or main.backward is None or read is None or main.place is None:
        return None
    called = STEP.match(main.place.text)
    if called is None or main.place.file != main.backward.file:
        return None
    file, lines = read
    at = main.backward.line - 1
    new = f"{_indent(lines[at])}{called[1]}.zero_grad()\n"
    return file, lines, [*lines[:at], new, *lines[at:]]


def _moved(read: tuple[Path, Lines], what: int, before: int) -> tuple[Path, Lines, Lines]:
    """The same with one line in front of another; both from 1."""
    file, lines = read
    line = lines[what - 1]
    rest = [*lines[: what - 1], *lines[what:]]
    at = before - 1 - (what < before)
    moved = f"{_indent(lines[before - 1 if before <= len(lines) else what - 1])}{line.lstrip()}"
    return file, lines, [*rest[:at], moved, *rest[at:]]


def _zero_later(run: ScriptRun) -> tuple[Path, Lines, Lines] | None:
    o = next((o for o in run.optimizers if o.emptied and o.emptied > o.ahead), None)
    if o is None or o.zeroed is None or o.backward is None or o.zeroed.file != o.backward.file:
        return None
    if not re.fullmatch(r"[\w.]+\.zero_grad\(.*\)", o.zeroed.text):
        return None
    read = _read(o.zeroed)
    return None if read is None else _moved(read, o.zeroed.line, o.backward.line)


def _step_later(run: ScriptRun) -> tuple[Path, Lines, Lines] | None:
    o = next((o for o in run.optimizers if o.ahead), None)
    if o is None or o.place is None or o.backward is None or o.place.file != o.backward.file:
        return None
    if STEP.match(o.place.text) is None or not o.place.text.endswith(")"):
        return None
    read = _read(o.place)
    return None if read is None else _moved(read, o.place.line, o.backward.line + 1)


def _without_scheduler(run: ScriptRun) -> tuple[Path, Lines, Lines] | None:
    stepped = [place for (_, place), n in run.scheduled.items() if n > 1 and place is not None]
    read = _read(stepped[0]) if stepped else None
    if read is None or STEP.match(stepped[0].text) is None:
        return None
    file, lines = read
    at = stepped[0].line - 1
    note = f"{_indent(lines[at])}# {lines[at].lstrip()}"
    return file, lines, [*lines[:at], note, *lines[at + 1 :]]


def _train(run: ScriptRun) -> tuple[Path, Lines, Lines] | None:
    seen = next((m for m in run.modules if m.in_evaluation > m.in_training and m.minds_mode), None)
    read = _read(seen.place) if seen else None
    if seen is None or seen.place is None or read is None:
        return None
    file, lines = read
    at = seen.place.line - 1
    names = CALL.findall(lines[at].partition("=")[2] or lines[at])
    called = [n for n in names if n.split(".")[0] not in OTHERS and not n.startswith("loss")]
    if len(called) != 1:
        return None
    new = f"{_indent(lines[at])}{called[0]}.train()\n"
    return file, lines, [*lines[:at], new, *lines[at:]]
