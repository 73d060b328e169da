"""The rooms of the house, lowest first: imports point down, and never in a circle."""

import ast
import functools
import graphlib
from pathlib import Path

import pytest

ROOMS = {  # what each room may import besides itself
    "core": set(),
    "linalg": {"core"},
    "models": {"core", "linalg"},
    "report": {"core"},
    "checkpoints": {"core"},
    "sources": {"checkpoints", "core", "models"},
    "survey": {"core", "linalg", "models"},
    "diagnosis": {"core", "linalg", "models", "report", "survey"},
    "watching": {"core", "linalg", "models", "report", "survey"},
    "scanning": {"checkpoints", "core", "linalg", "report"},
    "theory": {"core", "linalg", "models", "report", "survey", "watching"},
}
EVERY = set(ROOMS)
ROOMS |= {
    "integrations": {"core", "watching"},
    "cli": EVERY - {"checkpoints", "linalg", "survey"} | {"integrations"},  # `--ray`
    "__main__": {"cli"},
}
ROOT = Path(__file__).parents[1]
FILES = sorted(
    file
    for pattern in (
        "sigmascope/**/*.py",
        "sigmascope_experiments/**/*.py",
        "benchmarks/**/*.py",
        "docs/**/*.py",
    )
    for file in ROOT.glob(pattern)
)


@functools.cache
def imports(code):
    """Every statement that imports, also those inside functions."""
    found, open_ = [], [ast.parse(code)]
    while open_:  # no expression holds one, and most of a file is expressions
        node = open_.pop()
        inner = (c for c in ast.iter_child_nodes(node) if not isinstance(c, ast.expr))
        open_ += inner
        found += [node] * isinstance(node, ast.Import | ast.ImportFrom)
    return found


def rooms_imported(code):
    """`[room, module inside, ...]` of every import, also those inside functions."""
    for node in imports(code):
        if isinstance(node, ast.Import):
            yield from (
                a.name.split(".")[1:] for a in node.names if a.name.startswith("sigmascope.")
            )
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "an import is written out from `sigmascope`, never relative"
            if node.module == "sigmascope":
                yield from ([a.name] for a in node.names)
            elif node.module.startswith("sigmascope."):
                yield node.module.split(".")[1:]


def require_order(code, here, path=""):
    """Fail where code in room `here` (None outside the package) imports what it may not."""
    outside = EVERY | {"cli", "integrations"}
    allowed = outside if here is None else ROOMS.get(here, set())
    for room, *_ in rooms_imported(code):
        if room != here and not (here is None and room == "__version__"):
            assert room in allowed, f"{here} may not import {room}: {path}"


def test_imports_point_down():
    for path in FILES:
        package, room = path.relative_to(ROOT).parts[:2]
        here = room.removesuffix(".py") if package == "sigmascope" else None
        require_order(path.read_text(encoding="utf-8"), here, path)


@pytest.mark.parametrize(
    ("here", "code"),
    [
        ("linalg", "from sigmascope import models"),
        ("linalg", "from sigmascope.models import Subject"),
        ("linalg", "import sigmascope.models"),
        ("linalg", "import sigmascope.models as p"),
        ("models", "from sigmascope.survey.profiling import profile"),
        ("survey", "def inside():\n    from sigmascope import report"),
        ("theory", "from ..probes import Subject"),
        ("theory", "from . import bounds"),
        ("core", "from sigmascope import survey"),
        ("sources", "from sigmascope import linalg"),
        ("report", "from sigmascope import cli"),
        ("__init__", "from sigmascope import linalg"),
    ],
)
def test_a_wrong_import_is_named(here, code):
    with pytest.raises(AssertionError):
        require_order(code, here)


def files_imported(path):
    """The files of the package that a file imports, packages' doors aside."""
    for node in imports(path.read_text(encoding="utf-8")):
        if isinstance(node, ast.ImportFrom) and node.module.split(".")[0] == "sigmascope":
            for name in (node.module, *(f"{node.module}.{a.name}" for a in node.names)):
                if (file := ROOT / f"{name.replace('.', '/')}.py").exists():
                    yield file


def test_no_files_import_one_another_in_a_circle():
    inside = [f for f in FILES if f.is_relative_to(ROOT / "sigmascope")]
    graph = {f: set(files_imported(f)) for f in inside}
    list(graphlib.TopologicalSorter(graph).static_order())


def test_every_room_is_listed():
    rooms = {p.parent.name for p in ROOT.glob("sigmascope/*/__init__.py")}
    assert rooms == set(ROOMS) - {"__main__"}


def test_every_module_has_its_tests_where_its_path_says():
    """In `test_NAME.py` beside it, or in a folder of its name where there are several."""
    modules = [p.relative_to(ROOT / "sigmascope") for p in ROOT.glob("sigmascope/**/*.py")]
    untested = [
        str(p)
        for p in modules
        if p.stem[:2] != "__"
        and not (ROOT / "tests" / p.parent / f"test_{p.name}").exists()
        and not any((ROOT / "tests" / p.with_suffix("")).glob("test_*.py"))
    ]
    assert len(modules) > 100
    assert not untested
