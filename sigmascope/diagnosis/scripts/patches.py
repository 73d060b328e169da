"""Lines of a script to change, as a unified diff of the user's own file.

Only where the line is known from what happened, and what stands there is what happened: the call
itself on a line of its own, or an expression of which there is one. Else nothing is said, and the
remedy in words must do.
"""

import ast
import difflib
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

from sigmascope.core.records import Finding
from sigmascope.diagnosis.rules.dependences import RANDOM_EVALUATION
from sigmascope.diagnosis.rules.training import (
    MAXIMISED_LOSS,
    OTHER_OPTIMIZER,
    RATE_TOO_HIGH,
    RATE_TOO_LOW,
    STRONG_MOMENTUM,
    STRONG_WEIGHT_DECAY,
    UNUSUAL_SETTINGS,
)
from sigmascope.diagnosis.scripts.interventions import SHARP
from sigmascope.diagnosis.scripts.rules import (
    ATTACHED_TARGET,
    CUT_GRAPH,
    CUT_THROUGH_TIME,
    DWINDLING_RATE,
    EVALUATION_MODE,
    GRADIENTS_NOT_ZEROED,
    NARROW_SCORES,
    NO_BACKWARD,
    NO_STEP,
    NON_FINITE_GRADIENTS,
    NON_FINITE_LOSS,
    NOTHING_LOADED,
    REPEATED_BATCH,
    REVERSED_CLASS_WEIGHTS,
    SCALED_GRADIENTS,
    SOFTMAX_TWICE,
    SORTED_CLASSES,
    SPREAD_SHAPES,
    STEP_BEFORE_BACKWARD,
    STRONG_CLIPPING,
    SUMMED_LOSS,
    TWICE,
    UNSHARED,
    UNSHARED_PROBABILITIES,
    ZEROED_BEFORE_STEP,
    ZEROED_BETWEEN_BATCHES,
)
from sigmascope.diagnosis.scripts.seen import Line, ScriptRun

STEP = re.compile(r"^([A-Za-z_][\w.\[\]'\"]*)\.step\(")
ZERO = re.compile(r"[\w.]+\.zero_grad\(.*\)")
CALL = re.compile(r"([A-Za-z_][\w.]*)\(")
OTHERS = frozenset({"F", "torch", "nn", "criterion", "float", "len", "print"})  # no model
ASSIGNED = re.compile(r"^([A-Za-z_][\w.]*)\s*=[^=]")
AHEAD = re.compile(r"target|expected|goal|label|td|truth", re.IGNORECASE)
PLAIN = (ast.Name, ast.Attribute, ast.Call, ast.Subscript)  # that need no parentheses
Lines = list[str]
Change = tuple[Path, Lines, Lines]


def changes_of(run: ScriptRun, findings: Sequence[Finding]) -> dict[str, Change]:
    """The lines to change for each finding of which they are known.

    Args:
        run: Where it was found.
        findings: What was found.
    """
    return dict(_changes(run, findings))


def first_change(run: ScriptRun, findings: Sequence[Finding]) -> str | None:
    """The script with the lines of the first finding changed that has any; None where none has."""
    return next(("".join(after) for _, (_, _, after) in _changes(run, findings)), None)


def _changes(run: ScriptRun, findings: Sequence[Finding]) -> Iterator[tuple[str, Change]]:
    made: Mapping[str, Callable[[ScriptRun, Finding], Change | None]] = {
        GRADIENTS_NOT_ZEROED.name: _zero_grad,
        ZEROED_BEFORE_STEP.name: _zero_later,
        ZEROED_BETWEEN_BATCHES.name: _zero_behind,
        STEP_BEFORE_BACKWARD.name: _step_later,
        NO_STEP.name: _step,
        NO_BACKWARD.name: _backward,
        DWINDLING_RATE.name: _without_scheduler,
        STRONG_CLIPPING.name: _without_clipping,
        SCALED_GRADIENTS.name: _unscaled,
        EVALUATION_MODE.name: _train,
        CUT_GRAPH.name: _kept,
        CUT_THROUGH_TIME.name: _kept,
        REPEATED_BATCH.name: _stream,
        NON_FINITE_LOSS.name: _clamped,
        NON_FINITE_GRADIENTS.name: _clamped,
        SOFTMAX_TWICE.name: _logarithms,
        SPREAD_SHAPES.name: _one_shape,
        ATTACHED_TARGET.name: _detached,
        UNSHARED_PROBABILITIES.name: _of_scores,
        **dict.fromkeys((RATE_TOO_HIGH.name, RATE_TOO_LOW.name, SUMMED_LOSS.name), _rate),
        OTHER_OPTIMIZER.name: _adam,
        STRONG_WEIGHT_DECAY.name: _without_decay,
        **dict.fromkeys((STRONG_MOMENTUM.name, UNUSUAL_SETTINGS.name), _usual_settings),
        MAXIMISED_LOSS.name: _minimised,
        RANDOM_EVALUATION.name: _by_mode,
        SORTED_CLASSES.name: _shuffled,
        NOTHING_LOADED.name: _copied,
        NARROW_SCORES.name: _sharper,
        REVERSED_CLASS_WEIGHTS.name: _balanced,
    }
    first: dict[str, Finding] = {}
    for finding in findings:
        first.setdefault(finding.name, finding)
    for name, finding in first.items():
        change = made[name](run, finding) if name in made else None
        if change is None:
            continue
        try:
            ast.parse("".join(change[2]))
        except SyntaxError:  # what would be no Python any more is not told
            continue
        yield name, change


def diff_of(change: Change) -> str:
    """A unified diff.

    Args:
        change: The file, its lines, and those in their place.
    """
    file, before, after = change
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


def _zero_grad(run: ScriptRun, _: Finding) -> Change | None:
    main = next((o for o in run.optimizers if o.old), None)
    if main is None or main.backward is None or main.place is None:
        return None
    # its name in the line where it steps, or where a scaler is told to step it
    called = STEP.match(main.place.text)
    if called is None or main.place.file != main.backward.file:
        return None
    given = re.match(r"\s*([\w.\[\]]+)\s*[,)]", main.place.text[called.end() :])
    made = ASSIGNED.match(main.made.text) if main.made else None
    names = [called[1], *([given[1]] if given else [])]
    name = names[-1] if "scaler" in called[1].lower() else called[1]
    name = made[1] if made and made[1] in names else name
    return _put(main.backward, f"{name}.zero_grad()", behind=False)


def _moved(read: tuple[Path, Lines], what: int, before: int, like: int = 0) -> Change:
    """The same with one line in front of another, indented as that or as a third; all from 1."""
    file, lines = read
    line, like = lines[what - 1], like or before
    rest = [*lines[: what - 1], *lines[what:]]
    at = before - 1 - (what < before)
    moved = f"{_indent(lines[like - 1 if like <= len(lines) else what - 1])}{line.lstrip()}"
    return file, lines, [*rest[:at], moved, *rest[at:]]


def _zero_later(run: ScriptRun, _: Finding) -> Change | None:
    o = next((o for o in run.optimizers if o.emptied and o.emptied > o.ahead), None)
    if o is None or o.zeroed is None or o.backward is None or o.zeroed.file != o.backward.file:
        return None
    if not ZERO.fullmatch(o.zeroed.text):
        return None
    read = _read(o.zeroed)
    return None if read is None else _moved(read, o.zeroed.line, o.backward.line)


def _zero_behind(run: ScriptRun, _: Finding) -> Change | None:
    """Gradients that are accumulated, emptied right behind the step that uses them."""
    o = next((o for o in run.optimizers if o.dropped), None)
    if o is None or o.zeroed is None or o.place is None or o.zeroed.file != o.place.file:
        return None
    if not ZERO.fullmatch(o.zeroed.text) or STEP.match(o.place.text) is None:
        return None
    read, at = _read(o.zeroed), o.place.line
    return None if read is None else _moved(read, o.zeroed.line, at + 1, like=at)


def _step_later(run: ScriptRun, _: Finding) -> Change | None:
    o = next((o for o in run.optimizers if o.ahead), None)
    if o is None or o.place is None or o.backward is None or o.place.file != o.backward.file:
        return None
    if STEP.match(o.place.text) is None or not o.place.text.endswith(")"):
        return None
    read = _read(o.place)
    return None if read is None else _moved(read, o.place.line, o.backward.line + 1)


def _without_scheduler(run: ScriptRun, _: Finding) -> Change | None:
    stepped = [place for (_, place), n in run.scheduled.items() if n > 1 and place is not None]
    return _commented(stepped[0]) if stepped and STEP.match(stepped[0].text) else None


def _without_clipping(run: ScriptRun, _: Finding) -> Change | None:
    place = run.clipped[-1][0] if run.clipped else None
    own = place is not None and re.fullmatch(r"[\w.]*clip_grad_\w+\(.*\)", place.text)
    return _commented(place) if own else None


def _commented(place: Line | None) -> Change | None:
    """A line of its own, taken out."""
    read = _read(place)
    if read is None or place is None:
        return None
    file, lines = read
    at = place.line - 1
    note = f"{_indent(lines[at])}# {lines[at].lstrip()}"
    return file, lines, [*lines[:at], note, *lines[at + 1 :]]


def _put(place: Line | None, new: str, *, behind: bool) -> Change | None:
    """A line more, in front of another one or behind it."""
    read = _read(place)
    if read is None or place is None:
        return None
    file, lines = read
    at = place.line - 1
    line = f"{_indent(lines[at])}{new}\n"
    return file, lines, [*lines[: at + behind], line, *lines[at + behind :]]


def _step(run: ScriptRun, _: Finding) -> Change | None:
    """The optimizer that was made, behind the backward pass; or in the place of another one."""
    vain = [o.place for o in run.optimizers if o.vain]
    given = [m for o in run.unstepped if o.made is not None and (m := ASSIGNED.match(o.made.text))]
    place = vain[0] if len(vain) == len(given) == 1 else None
    stepped = None if place is None else STEP.match(place.text)
    if place is not None and stepped is not None and (read := _read(place)) is not None:
        # of the one that is given gradients, where another one steps in vain
        file, lines = read
        at = place.line - 1
        new = lines[at].replace(f"{stepped[1]}.step(", f"{given[0][1]}.step(", 1)
        return file, lines, [*lines[:at], new, *lines[at + 1 :]]
    made = [named for place in run.made if (named := ASSIGNED.match(place.text))]
    place = run.loss.place if run.loss else None
    if len(made) != 1 or place is None or not place.text.endswith("backward()"):
        return None
    return _put(place, f"{made[0][1]}.step()", behind=True)


def _backward(run: ScriptRun, _: Finding) -> Change | None:
    """The loss that was computed last before the step, in front of it."""
    named = [m for (*_, place) in run.comparisons if place and (m := ASSIGNED.match(place.text))]
    place = run.main.place if run.main else None
    if len({m[1] for m in named}) != 1 or place is None or STEP.match(place.text) is None:
        return None
    return _put(place, f"{named[0][1]}.backward()", behind=False)


def _unscaled(run: ScriptRun, _: Finding) -> Change | None:
    """A scaler that undoes what it did, before gradients are clipped or stepped by."""
    places = {what: place for what, place in run.scaled if place is not None}
    made = re.search(r"([\w.]+)\.scale\(", places["scale"].text) if "scale" in places else None
    stepped = run.main.place if run.main else None
    if made is None or stepped is None:
        return None
    if "clipping" in places:
        by = re.search(r"\.step\((\w[\w.]*)\)", stepped.text)
        return by and _put(places["clipping"], f"{made[1]}.unscale_({by[1]})", behind=False)
    called = STEP.match(stepped.text)
    read = _read(stepped)
    if called is None or read is None or stepped.text != f"{called[1]}.step()":
        return None
    file, lines = read
    at, indent = stepped.line - 1, _indent(lines[stepped.line - 1])
    new = [f"{indent}{made[1]}.step({called[1]})\n"]
    if not any(f"{made[1]}.update(" in line for line in lines):
        new.append(f"{indent}{made[1]}.update()\n")
    return file, lines, [*lines[:at], *new, *lines[at + 1 :]]


# ------------------------------------------------------------------------------
# Expressions that are written otherwise.


Text = Callable[[ast.AST], str]
New = str | tuple[ast.AST, str] | None  # for an expression, or for a part of it


def _written(
    place: Line | None,
    change: Callable[[ast.AST, Text], New],
    *,
    every: bool = False,
    lines: Lines | None = None,
) -> Change | None:
    """A script with the one expression of a line changed that `change` gives anything for.

    Args:
        place: The line.
        change: What stands in the place of an expression, if anything.
        every: Whether there may be several, which are no parts of another.
        lines: Of the script, where they were changed before.
    """
    read = _read(place)
    if read is None or place is None:
        return None
    file, own = read
    whole = "".join(lines or own).encode()
    starts = [0]
    for line in whole.splitlines(keepends=True):
        starts.append(starts[-1] + len(line))

    def span(node: Any) -> tuple[int, int]:
        first = starts[node.lineno - 1] + node.col_offset
        return first, starts[node.end_lineno - 1] + node.end_col_offset

    text = lambda node: whole[slice(*span(node))].decode()
    try:
        nodes = [n for n in ast.walk(ast.parse(whole)) if isinstance(n, ast.expr)]
    except (SyntaxError, ValueError):
        return None
    here = [n for n in nodes if n.lineno <= place.line <= (n.end_lineno or n.lineno)]
    told = [(n, new) for n in here if (new := change(n, text)) is not None]
    parts = [(n, new) if isinstance(new, str) else new for n, new in told]
    found = sorted(((*span(node), new) for node, new in parts), reverse=True)
    apart = all(a[0] >= b[1] for a, b in pairwise(found))
    if not found or not apart or (len(found) > 1 and not every):
        return None
    for first, last, new in found:  # from the end
        whole = whole[:first] + new.encode() + whole[last:]
    return file, own, whole.decode().splitlines(keepends=True)


def _name(node: ast.AST) -> str:
    """Of a function that is called, without what it is of."""
    func = getattr(node, "func", None)
    return getattr(func, "attr", getattr(func, "id", ""))


def _kept(run: ScriptRun, finding: Finding) -> Change | None:
    """What is detached stays in the graph; a draw is one that gradients go through."""
    told = [c for c in run.cuts if c.how in ("detach", "data", "sample", "grad")]
    told = [c for c in told if c.place is not None and c.place.says == finding.site]
    cut = max(told, key=lambda c: (bool(c.names), c.fed, c.across), default=None)

    def change(node: ast.AST, text: Text) -> str | None:
        if cut is not None and cut.how == "data":
            return (
                text(node.value)
                if isinstance(node, ast.Attribute) and node.attr == "data"
                else None
            )
        if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
            return None
        if cut is not None and cut.how == "grad":
            graphs = ("retain_graph", "create_graph")  # the one keeps what the other needs
            rest = [text(k) for k in node.keywords if k.arg not in graphs]
            given = [*map(text, node.args), *rest, "create_graph=True"]
            whole = node.func.attr == "grad" and len(node.args) <= 3
            return f"{text(node.func)}({', '.join(given)})" if whole else None
        if node.func.attr == "detach" and not node.args:
            return text(node.func.value)
        if node.func.attr == "sample":
            return f"{text(node.func.value)}.rsample{text(node)[len(text(node.func)) :]}"
        return None

    return None if cut is None else _written(cut.place, change)


def _whole(node: ast.AST, text: Text) -> str:
    """An expression that something may follow."""
    return text(node) if isinstance(node, PLAIN) else f"({text(node)})"


def _of_two(node: ast.AST) -> bool:
    """Whether it may be a loss of an output and of targets."""
    called = isinstance(node, ast.Call) and len(node.args) == 2 and not node.keywords
    words = (*(w.split("_")[0] for w in TWICE), "loss", "crit", "mse", "l1", "nll")
    return called and any(word in _name(node).lower() for word in words)


def _logarithms(run: ScriptRun, _: Finding) -> Change | None:
    """Losses that take probabilities, in the place of those that take logits."""
    every = [key for key in run.comparisons if key[0] in TWICE and key[1].startswith(TWICE[key[0]])]
    found = {place: (name, shapes) for name, _, shapes, place in every}
    at = None

    def change(node: ast.AST, text: Text) -> New:
        if not isinstance(node, ast.Call) or not _of_two(node):
            return None
        if (scores := _scores(node.args[0])) is not None:
            return node.args[0], text(scores)
        shares, targets = map(text, node.args)
        name, shapes = found[at]
        if name == "cross_entropy" and shapes[0] == shapes[1]:  # targets are shares, too
            wanted = _whole(node.args[1], text)
            return f"-({wanted} * torch.log({shares} + 1e-9)).sum(-1).mean()"
        if name == "cross_entropy":
            return f"torch.nn.functional.nll_loss(torch.log({shares} + 1e-9), {targets})"
        return f"torch.nn.functional.binary_cross_entropy({shares}, {targets})"

    made: Change | None = None
    for at in found:
        read = _read(at)
        if read is None or "import torch\n" not in read[1]:
            return None
        made = _written(at, change, lines=made and made[2]) or made
    return made


def _scores(shares: ast.AST) -> ast.AST | None:
    """What a softmax or sigmoid that is written out is taken of."""
    if not isinstance(shares, ast.Call) or not isinstance(shares.func, ast.Attribute):
        return None
    owner, name = shares.func.value, shares.func.attr
    if name not in ("softmax", "log_softmax", "sigmoid"):
        return None
    of_torch = ast.unparse(owner) in ("torch", "F", "nn.functional", "torch.nn.functional")
    if not of_torch:
        return owner
    return shares.args[0] if shares.args else None


def _of_scores(run: ScriptRun, _: Finding) -> Change | None:
    """A softmax over the classes, or else a loss that makes shares of whatever it is given."""
    gaps = run.unshared.items()
    place = next((p for (n, p), gap in gaps if gap > UNSHARED and n == "nll_loss"), None)

    def over_classes(node: ast.AST, text: Text) -> str | None:
        if not isinstance(node, ast.Call) or _name(node) != "log_softmax":
            return None
        dims = [k.value for k in node.keywords if k.arg == "dim"] or node.args[-1:]
        old = text(node)
        if len(dims) != 1 or not re.fullmatch(r"-?\d+", text(dims[0])) or not old.endswith(")"):
            return None
        return f"{old[: old.rindex(text(dims[0]))]}-1)"

    if made := _written(run.shares.get(place), over_classes):
        return made
    given = {p: node for (n, node, _, p) in run.comparisons if n == "kl_div"}
    bare = next((p for p, node in given.items() if node.startswith("Softmax")), None)

    def logarithm(node: ast.AST, text: Text) -> New:
        if not isinstance(node, ast.Call) or not node.args or "kl" not in _name(node).lower():
            return None
        return node.args[0], f"torch.log({text(node.args[0])} + 1e-9)"

    if place is None and (read := _read(bare)) is not None and "import torch\n" in read[1]:
        return _written(bare, logarithm)

    def change(node: ast.AST, text: Text) -> str | None:
        if not isinstance(node, ast.Call) or not _of_two(node):
            return None
        return f"torch.nn.functional.cross_entropy({', '.join(map(text, node.args))})"

    read = _read(place)
    return _written(place, change) if read and "import torch\n" in read[1] else None


def _one_shape(run: ScriptRun, _: Finding) -> Change | None:
    """An output in the shape of its targets."""
    heard = [place for (*_, place) in run.spreads]
    told = [p for (_, _, (out, targets), p) in run.comparisons if sorted(out) != sorted(targets)]
    places = [*told, *heard] or [p for (_, _, (a, b), p) in run.comparisons if a != b]

    def change(node: ast.AST, text: Text) -> str | None:
        if isinstance(node, ast.Call) and _of_two(node) and not heard:
            (a, b), bare = (_whole(n, text) for n in node.args), text(node.args[1])
            return f"{text(node.func)}({a}.reshape({b}.shape), {bare})"
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Sub) and heard:
            a, b = (_whole(n, text) for n in (node.left, node.right))
            return f"{a}.reshape({b}.shape) - {b}"
        return None

    return _written(places[0], change) if places else None


def _detached(run: ScriptRun, _: Finding) -> Change | None:
    """Targets without their gradient."""
    name, place = next((key for key, n in run.attached.items() if n), ("", None))

    def change(node: ast.AST, text: Text) -> str | None:
        if name == "log_prob":
            if not (isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult)):
                return None
            sides = [_whole(node.left, text), _whole(node.right, text)]
            of_draws = ["log" in side.lower() for side in sides]
            if of_draws.count(True) != 1:
                return None
            sides[of_draws.index(False)] += ".detach()"
            return " * ".join(sides)
        if isinstance(node, ast.Call) and _of_two(node):
            output, targets = node.args
            return f"{text(node.func)}({text(output)}, {_whole(targets, text)}.detach())"
        if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Sub):
            a, b = _whole(node.left, text), _whole(node.right, text)
            first = AHEAD.search(a) and not AHEAD.search(b)  # else targets are taken away
            return f"{a}.detach() - {b}" if first else f"{a} - {b}.detach()"
        return None

    return _written(place, change)


def _train(run: ScriptRun, _: Finding) -> Change | None:
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


# ------------------------------------------------------------------------------
# Arguments of what was made: optimizers, loaders, dropout.


def _keyword(node: ast.Call, name: str) -> ast.expr | None:
    return next((k.value for k in node.keywords if k.arg == name), None)


def _also(node: ast.Call, text: Text, more: str) -> str | None:
    """A call with an argument more."""
    old = text(node)
    return f"{old[:-1].rstrip().rstrip(',')}, {more})" if old.endswith(")") else None


def _of_optimizer(run: ScriptRun, change: Callable[[ast.Call, Text], New]) -> Change | None:
    """The one optimizer, made otherwise."""
    made = run.optimizers[0] if len(run.optimizers) == 1 else None

    if made is None:
        return None

    def at(node: ast.AST, text: Text) -> New:
        if not isinstance(node, ast.Call) or _name(node) != made.kind or not node.args:
            return None
        return change(node, text)

    return _written(made.made, at)


def _rate(run: ScriptRun, finding: Finding) -> Change | None:
    """The rate that was tried."""
    tried = [r.form for r in finding.evidence if r.form.startswith("rate x ")]
    if not tried or run.main is None:
        return None
    factor, own = float(tried[-1].removeprefix("rate x ")), run.main.rates[0]

    def change(node: ast.Call, text: Text) -> New:
        value = _keyword(node, "lr") or (node.args[1] if len(node.args) > 1 else None)
        if value is None:
            return _also(node, text, f"lr={own * factor:.4g}")
        number = value.value if isinstance(value, ast.Constant) else None
        if isinstance(number, int | float):
            return value, f"{number * factor:.4g}"
        return value, f"{_whole(value, text)} * {factor:g}"

    return _of_optimizer(run, change)


def _adam(run: ScriptRun, _: Finding) -> Change | None:
    def change(node: ast.Call, text: Text) -> New:
        name, given = text(node.func), node.args[0]
        if "." not in name or isinstance(given, ast.List | ast.ListComp):
            return None  # groups have rates of their own
        return f"{name.rpartition('.')[0]}.Adam({text(given)}, lr=0.001)"

    return _of_optimizer(run, change)


def _with_settings(run: ScriptRun, settings: Mapping[str, Any]) -> Change | None:
    """The optimizer with other words for settings that are given by their names."""

    def change(node: ast.Call, text: Text) -> New:
        if not settings.keys() & {k.arg for k in node.keywords}:
            return None
        words = [text(a) for a in node.args]
        for k in node.keywords:
            value = settings.get(k.arg or "")
            told = text(k.value) if value is None else repr(value)
            words.append(f"{k.arg}={told}" if k.arg else f"**{told}")
        return f"{text(node.func)}({', '.join(words)})"

    return _of_optimizer(run, change)


def _usual_settings(run: ScriptRun, _: Finding) -> Change | None:
    return _with_settings(run, run.optimizers[0].unusual) if run.optimizers else None


def _without_decay(run: ScriptRun, _: Finding) -> Change | None:
    def change(node: ast.Call, text: Text) -> New:
        value = _keyword(node, "weight_decay")
        return None if value is None else (value, "0.0")

    return _of_optimizer(run, change)


def _minimised(run: ScriptRun, _: Finding) -> Change | None:
    """A loss without its minus, or an optimizer that goes down."""
    if run.climbs:
        return _with_settings(run, {"maximize": False})

    def change(node: ast.AST, text: Text) -> str | None:
        if not isinstance(node, ast.UnaryOp) or not isinstance(node.op, ast.USub):
            return None
        return None if isinstance(node.operand, ast.Constant) else text(node.operand)

    places = dict.fromkeys((*(p for (_, p), (up, _) in run.reversed.items() if up), *run.losses))
    return next((made for place in places if (made := _written(place, change))), None)


def _by_mode(run: ScriptRun, finding: Finding) -> Change | None:
    """Dropout that is told the mode of its module."""
    name, _, where = finding.evidence[0].form.partition(" at ")
    base, _, line = where.rpartition(":")
    files = {p.file for p in (*(m.place for m in run.modules), *run.losses) if p is not None}
    file = next((f for f in files if Path(f).name == base), None)
    place = Line(file, int(line)) if file else None
    read = _read(place)
    if place is None or read is None:
        return None
    kinds = (n for n in ast.walk(ast.parse("".join(read[1]))) if isinstance(n, ast.ClassDef))
    methods = (f for kind in kinds for f in kind.body if isinstance(f, ast.FunctionDef))
    around = (f for f in methods if f.lineno <= place.line <= (f.end_lineno or 0) and f.args.args)
    own = next((f.args.args[0].arg for f in around), None)
    if own is None:
        return None

    def change(node: ast.AST, text: Text) -> New:
        if not isinstance(node, ast.Call) or _name(node) != name:
            return None
        share = _keyword(node, "dropout_p")
        if share is not None:
            return share, f"{_whole(share, text)} if {own}.training else 0.0"
        told = _keyword(node, "training") or len(node.args) > 2
        return None if told else _also(node, text, f"training={own}.training")

    return _written(place, change)


def _begun(run: ScriptRun) -> Line | None:
    """Where the loader that is begun most often is gone through, in a file that is there."""
    seen = max(run.loaders.values(), key=lambda each: each.begun, default=None)
    return seen.place if seen is not None and _read(seen.place) is not None else None


def _shuffled(run: ScriptRun, _: Finding) -> Change | None:
    """A loader that draws its samples at random, made where its name is given."""
    place = _begun(run)
    read = _read(place)
    if place is None or read is None:
        return None
    named = set(re.findall(r"[A-Za-z_]\w*", place.text))
    nodes = [n for n in ast.walk(ast.parse("".join(read[1]))) if isinstance(n, ast.Assign)]
    made = [
        n.value
        for n in nodes
        if isinstance(n.value, ast.Call) and _name(n.value) == "DataLoader"
        if any(isinstance(t, ast.Name) and t.id in named for t in n.targets)
    ]

    def change(node: ast.AST, text: Text) -> New:
        if not isinstance(node, ast.Call) or _name(node) != "DataLoader":
            return None
        if _keyword(node, "sampler") is not None:
            return None
        value = _keyword(node, "shuffle")
        return _also(node, text, "shuffle=True") if value is None else (value, "True")

    return _written(Line(place.file, made[0].lineno), change) if len(made) == 1 else None


def _stream(run: ScriptRun, _: Finding) -> Change | None:
    """A loader that is begun once, before the loop, and again where it is at its end."""
    place = _begun(run)
    if place is None:
        return None
    begun: list[str] = []

    def change(node: ast.AST, text: Text) -> str | None:
        """`next(iter(loader))`."""
        if not isinstance(node, ast.Call) or _name(node) != "next" or len(node.args) != 1:
            return None
        inner = node.args[0]
        if not isinstance(inner, ast.Call) or _name(inner) != "iter" or len(inner.args) != 1:
            return None
        begun.append(text(inner.args[0]))
        return "next(batches)"

    made = _written(place, change)
    if made is None or any("batches" in line for line in made[1]):
        return None
    at = place.line
    whole = ast.walk(ast.parse("".join(made[1])))
    around = [n for n in whole if isinstance(n, ast.For | ast.While)]
    around = [n for n in around if n.lineno <= at <= (n.end_lineno or at)]
    if not around:
        return None
    first = min(n.lineno for n in around) - 1  # of the outermost loop
    indent = _indent(made[1][first])
    line = f"{indent}batches = (batch for _ in iter(int, 1) for batch in {begun[0]})\n"
    return made[0], made[1], [*made[2][:first], line, *made[2][first:]]


def _copied(run: ScriptRun, _: Finding) -> Change | None:
    """Weights that are kept as they are, and not by reference."""
    kept = next((loaded.kept for loaded in run.loaded if loaded.shared), None)

    def change(node: ast.AST, text: Text) -> str | None:
        if not isinstance(node, ast.Call) or _name(node) != "state_dict":
            return None
        return f"{{k: v.clone() for k, v in {text(node)}.items()}}"

    return _written(kept, change)


def _sharper(run: ScriptRun, _: Finding) -> Change | None:
    """Scores times what makes them as large as those of a temperature of 0.07."""
    place = next(iter(run.narrow))
    size = run.narrow[place][1]

    def change(node: ast.AST, text: Text) -> New:
        if not isinstance(node, ast.Call) or not _of_two(node) or size <= 0:
            return None
        return node.args[0], f"{_whole(node.args[0], text)} * {SHARP / size:.3g}"

    return _written(place, change, every=True)


def _balanced(run: ScriptRun, finding: Finding) -> Change | None:
    """One over the weights of classes, or of samples, where they are given at one place."""
    places = [*run.weighted, *(each.place for each in run.loaders.values())]
    place = next((p for p in places if p is not None and p.says == finding.site), None)
    read = _read(place)
    if place is None or read is None:
        return None
    sampled = place not in run.weighted

    def weights(node: ast.AST) -> ast.expr | None:
        if not isinstance(node, ast.Call):
            return None
        if not sampled:
            return _keyword(node, "weight") or _keyword(node, "pos_weight")
        if _name(node) != "WeightedRandomSampler":
            return None
        return node.args[0] if node.args else _keyword(node, "weights")

    def change(node: ast.AST, text: Text) -> New:
        value = weights(node)
        return None if value is None else (value, f"1 / {_whole(value, text)}")

    given = [n for n in ast.walk(ast.parse("".join(read[1]))) if weights(n) is not None]
    at = [n.lineno for n in given if isinstance(n, ast.Call)]
    return _written(Line(place.file, at[0]), change) if len(at) == 1 else None


def _clamped(run: ScriptRun, _: Finding) -> Change | None:
    """A logarithm or a root of what is no less than a little."""
    broken = run.broken
    words = ("log", "log2", "log10", "sqrt")
    name = next((w for w in words if broken is not None and broken.how.strip("_") == w), None)

    def change(node: ast.AST, text: Text) -> New:
        if not isinstance(node, ast.Call) or _name(node) != name or node.keywords:
            return None
        if len(node.args) == 1:
            return node.args[0], f"({text(node.args[0])}).clamp_min(1e-8)"
        of = node.func.value if isinstance(node.func, ast.Attribute) and not node.args else None
        return None if of is None else (of, f"{_whole(of, text)}.clamp_min(1e-8)")

    return None if name is None or broken is None else _written(broken.place, change, every=True)
