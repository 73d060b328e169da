"""Cures written into the source that a program is named in, as a unified diff."""

import ast
import math
import re
from collections.abc import Sequence
from difflib import unified_diff
from typing import Any

import torch
from torch import Tensor

from sigmascope.core.guard import Refusal
from sigmascope.diagnosis.cures.trials import Cure
from sigmascope.diagnosis.programs.opened import opened
from sigmascope.diagnosis.programs.program import OPTIONS, WORDS, Program

# ------------------------------------------------------------------------------
# Where a source puts a program together: the display of what it hands over, read as syntax.


ORDER = ("model", "data", "loss", "optimizer", "lr", "batch_size", "epochs")  # of a tuple, a call


class NoPlace(Exception):
    """A line of a cure that has no place in the source."""


def place_of(tree: ast.Module, name: str) -> tuple[list[ast.stmt], ast.stmt, ast.expr]:
    """The statements around a program, the one that hands it over, and its display."""
    for node in tree.body:
        if isinstance(node, ast.FunctionDef) and node.name == name:
            body = node.body
            last = body[-1]
            if not isinstance(last, ast.Return) or last.value is None:
                raise NoPlace(name)
            value: ast.expr = last.value
            break
        if isinstance(node, ast.Assign) and assigns(node, name):
            body, last, value = tree.body, node, node.value
            break
    else:
        raise NoPlace(name)
    if isinstance(value, ast.Name):
        made = [s for s in body if assigns(s, value.id)]
        if len(made) != 1 or not isinstance(made[0], ast.Assign):
            raise NoPlace(name)
        last, value = made[0], made[0].value
    return body, last, value


def fields_of(display: ast.expr) -> dict[str, ast.expr]:
    """What a program says, by its field."""
    pairs: list[tuple[Any, ast.expr]] = []
    if isinstance(display, ast.Dict):
        pairs = [
            (getattr(k, "value", None), v)
            for k, v in zip(display.keys, display.values, strict=True)
        ]
    elif isinstance(display, ast.Tuple):
        pairs = [*zip(ORDER, display.elts, strict=False)]
    elif isinstance(display, ast.Call):
        own = display.args if called_name(display) == "Program" else ()
        pairs = [*zip(ORDER, own, strict=False), *((k.arg, k.value) for k in display.keywords)]
    fields = {WORDS.get(k, k): v for k, v in pairs}
    if "model" not in fields or None in fields:  # `**rest`, where anything may stand
        raise NoPlace("model")
    if not set(fields) <= {*ORDER, *OPTIONS, "clip", "total", "options"}:
        raise NoPlace("fields")
    return {str(name): value for name, value in fields.items()}


def called_name(node: ast.Call) -> str:
    """The last word of what is called."""
    return getattr(node.func, "attr", getattr(node.func, "id", ""))


def pair_in(data: ast.expr | None) -> list[ast.expr] | None:
    """Inputs and targets of the one data set of tensors in an expression."""
    calls = [n for n in ast.walk(data) if isinstance(n, ast.Call)] if data is not None else []
    sets = [n for n in calls if called_name(n) == "TensorDataset"]
    return sets[0].args if len(sets) == 1 else None


def assigns(statement: ast.stmt, name: str) -> bool:
    """Whether a statement gives a name a value."""
    targets = getattr(statement, "targets", None) or [getattr(statement, "target", None)]
    return any(isinstance(n, ast.Name) and n.id == name
               for t in targets if t is not None for n in ast.walk(t))  # fmt: skip


def imported(tree: ast.Module) -> set[str]:
    """Names that imports bind at the top of a file."""
    imports = [n for n in tree.body if isinstance(n, ast.Import | ast.ImportFrom)]
    return {(a.asname or a.name.partition(".")[0]) for n in imports for a in n.names}


def with_imports(source: str, lines: Sequence[str]) -> str:
    """A source with more imports, behind those that it has."""
    if not lines:
        return source
    tree, rows = ast.parse(source), source.splitlines(keepends=True)
    imports = [n.end_lineno or 0 for n in tree.body if isinstance(n, ast.Import | ast.ImportFrom)]
    said = (tree.body[0].end_lineno or 0) if ast.get_docstring(tree) is not None else 0
    at = max(imports, default=said)
    return "".join([*rows[:at], *(f"{line}\n" for line in lines), *rows[at:]])


# ------------------------------------------------------------------------------
# Cures written into the source that a program is named in, as a unified diff.
#
# What a program hands over stands in a display: a mapping, a call with keywords, a tuple. A cure
# changes values of it, or what a name in it was assigned, or puts lines behind the model. Whatever
# cannot be placed beyond doubt is not: the lines of the cure stay what is printed. The file is read
# and never run here; who shows the result runs it once and compares (`agrees`).


IMPORTS = {
    "torch": "import torch",
    "nn": "from torch import nn",
    "F": "from torch.nn import functional as F",
}
BY_HAND = "# at the end of"  # a comment that is all there is to say
UNENDED = "\\ No newline at end of file"  # as `diff` and `patch` have it


def diff_of(cure: Cure, source: str, name: str, file: str) -> str:
    """A cure as a unified diff; empty where its lines cannot be placed.

    Args:
        cure: What to write.
        source: Of the file.
        name: Of the function in it, or of what it assigns.
        file: As the diff names it.
    """
    changed = patched(cure.patch, source, name)
    if changed is None or changed == source:
        return ""
    both = (part.splitlines(keepends=True) for part in (source, changed))
    lines = unified_diff(*both, fromfile=file, tofile=file)
    return "".join(line if line.endswith("\n") else f"{line}\n{UNENDED}\n" for line in lines)


def patched(patch: Sequence[str], source: str, name: str) -> str | None:
    """The source with the lines of a cure in their places; None where one has none.

    Args:
        patch: Lines of a cure.
        source: Of the file.
        name: Of the function in it, or of what it assigns.
    """
    try:
        editor = _Editor(source, name)
        for line in patch:
            editor.apply(line)
        return editor.written()
    except (NoPlace, SyntaxError):
        return None


class _Editor:
    """The place in a source where a program is put together, and changes of it."""

    def __init__(self, source: str, name: str) -> None:
        self._source = source
        self._tree = ast.parse(source)
        ends = [0]
        for line in source.encode().splitlines(keepends=True):  # positions count bytes
            ends.append(ends[-1] + len(line))
        self._starts = ends
        self._body, self._statement, display = place_of(self._tree, name)
        self._fields = fields_of(display)
        self._display = display
        self._edits: list[tuple[int, int, str]] = []
        self._behind: list[str] = []

    def apply(self, line: str) -> None:
        """One line of a cure."""
        rate = re.match(r"lr=(\S+)", line)
        option = re.match(r"(\w+)=(.+)", line)
        plain = re.match(r"(epochs|batch_size) = (\S+)", line)
        other = re.match(r"(optimizer|loss|targets) = (.+)", line)
        if rate and "lr" in self._fields:
            self._replace(self._fields["lr"], rate[1])
        elif rate:  # it stands where the optimizer is made, or beside its name
            by = self._assigned(self._fields.get("optimizer"))
            given = None
            if isinstance(by, ast.Call):
                given = next((k.value for k in by.keywords if k.arg == "lr"), None)
                if given is None and len(by.args) > 1:
                    given = by.args[1]
            if given is not None:
                self._replace(given, rate[1])
            elif isinstance(by, ast.Constant):
                self._set("lr", rate[1])
            else:
                raise NoPlace("lr")
        elif option:  # another setting of the optimizer, which is given by its name
            given = self._fields.get(option[1])
            by = None if given is not None else self._assigned(self._fields.get("optimizer"))
            if isinstance(by, ast.Call):
                given = next((k.value for k in by.keywords if k.arg == option[1]), None)
            if given is None:
                raise NoPlace(option[1])
            self._replace(given, option[2])
        elif plain:
            self._set(plain[1], plain[2])
        elif other and other[1] == "targets":
            data = self._assigned(self._fields.get("data"))
            pair = data.elts if isinstance(data, ast.Tuple) else pair_in(data)
            if pair is None or len(pair) != 2:
                raise NoPlace("targets")
            text = re.sub(r"\btargets\b", self._text(pair[1]), other[2])
            self._replace(pair[1], text)
        elif other:
            # a value that may name the model
            field = other[1]
            text = other[2]
            if re.search(r"\bmodel\b", text):
                text = re.sub(r"\bmodel\b", self._model(), text)
            self._set(field, text)
            # a rate goes with the name of an optimizer, and none with one that is made
            if field == "optimizer" and "lr" in self._fields:
                self._replace(self._fields["lr"], "None")
        elif re.match(r"(setattr\()?model[\[.,]", line) and "batch" not in line:
            named = (n for n in ast.walk(ast.parse(line)) if isinstance(n, ast.Name))
            raw, name = line.encode(), self._model().encode()
            for at in sorted((n.col_offset for n in named if n.id == "model"), reverse=True):
                raw = raw[:at] + name + raw[at + len("model") :]
            self._behind.append(raw.decode())
        elif not line.startswith("#") or line.startswith(BY_HAND):
            raise NoPlace(line)

    def written(self) -> str:
        """The source with all changes."""
        if self._behind:  # lines that change the model, where it was made
            made = [s for s in self._body if assigns(s, self._model())]
            here = made[-1] if made else self._statement
            row = (here.end_lineno or here.lineno) if made else here.lineno - 1
            at, indent = self._starts[row], " " * here.col_offset
            text = "".join(f"{indent}{line}\n" for line in self._behind)
            self._edits.append((at, at, text))
        raw = self._source.encode()
        new = " ".join(text for _, _, text in self._edits)
        for start, end, text in sorted(self._edits, reverse=True):
            raw = raw[:start] + text.encode() + raw[end:]
        changed = raw.decode()
        known = imported(self._tree)
        used = (name for name in IMPORTS if re.search(rf"\b{name}\.", new))
        changed = with_imports(changed, [IMPORTS[name] for name in used if name not in known])
        ast.parse(changed)  # raises where it is none
        return changed

    def _span(self, node: ast.AST) -> tuple[int, int]:
        at: Any = node
        start = self._starts[at.lineno - 1] + at.col_offset
        return start, self._starts[at.end_lineno - 1] + at.end_col_offset

    def _text(self, node: ast.AST) -> str:
        start, end = self._span(node)
        return self._source.encode()[start:end].decode()

    def _replace(self, node: ast.AST, text: str) -> None:
        """Another text for a node; the last one counts, and none may lie within another."""
        span = self._span(node)
        self._edits = [e for e in self._edits if e[:2] != span]
        if any(start < span[1] and span[0] < end for start, end, _ in self._edits):
            raise NoPlace(text)
        self._edits.append((*span, text))

    def _set(self, field: str, text: str) -> None:
        """Another value of a field, or one more."""
        if field in self._fields:
            self._replace(self._fields[field], text)
            return
        last = list(self._fields.values())[-1]
        pair = {ast.Dict: f'"{field}": {text}', ast.Call: f"{field}={text}"}.get(
            type(self._display)
        )
        if pair is None:
            raise NoPlace(field)
        end = self._span(last)[1]
        self._edits.append((end, end, f", {pair}"))

    def _model(self) -> str:
        """The name of the model; it gets one where it has none and one is wanted."""
        model = self._fields["model"]
        if isinstance(model, ast.Name):
            return model.id
        if not self._behind or not self._behind[0].startswith("model = "):
            self._behind.insert(0, f"model = {self._text(model)}")
            self._replace(model, "model")
        return "model"

    def _assigned(self, value: ast.expr | None) -> ast.expr | None:
        """What a name was assigned, once; anything else as it is."""
        if not isinstance(value, ast.Name):
            return value
        made = [s for s in self._body if assigns(s, value.id)]
        if len(made) != 1 or not isinstance(made[0], ast.Assign):
            raise NoPlace(value.id)
        return made[0].value


# ------------------------------------------------------------------------------
# Whether a source that was changed makes the program that a cure tried.


CLOSE = 0.01  # relative difference of a rate that is printed with three digits


def agrees(made: Program, cure: Cure, *, samples: int) -> bool:
    """Whether a program is the one that a cure made, but for the draws of new weights.

    Args:
        made: By the changed source.
        cure: With the program that was tried.
        samples: On how many samples targets are compared.
    """
    try:  # what is refused is another program
        mine, theirs = made.recipe(), cure.program.recipe()
        ours, known = (opened(p, samples=samples) for p in (made, cure.program))
    except Refusal:
        return False
    if mine is None or theirs is None or mine.name != theirs.name:
        return False
    one, other = ours.targets, known.targets
    alike = one is other
    if isinstance(one, Tensor) and isinstance(other, Tensor):
        alike = one.dtype == other.dtype and torch.equal(one, other)
    same = (
        math.isclose(mine.rate, theirs.rate, rel_tol=CLOSE),
        str(made.model) == str(cure.program.model),
        (ours.size, ours.planned, ours.unfit) == (known.size, known.planned, known.unfit),
        alike,
    )
    if not all(same):
        return False
    # whether the losses say the same of outputs that are made up
    output = torch.rand(ours.shape, generator=torch.Generator().manual_seed(0))
    try:
        return bool(ours.loss(output, one) == known.loss(output, other))
    except Exception:  # noqa: BLE001 (a loss raises anything of outputs of another shape)
        return False
