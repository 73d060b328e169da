"""Where a source puts a program together: the display of what it hands over, read as syntax."""

import ast
from collections.abc import Sequence
from typing import Any

from sigmascope.diagnosis.programs.program import OPTIONS, WORDS

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
