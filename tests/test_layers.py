"""The rooms of the house, lowest first: imports point down, and go through the door."""

import ast
from pathlib import Path

import pytest

ROOMS = {  # what each room may import besides itself
    "linalg": set(),
    "networks": set(),
    "probes": {"linalg", "networks"},
    "theory": {"linalg", "networks", "probes"},
    "survey": {"linalg", "networks", "probes", "theory"},
    "diagnosis": {"linalg", "networks", "probes", "theory", "survey"},
    "report": {"linalg", "networks", "probes", "theory", "survey", "diagnosis"},
    "store": {"linalg"},
    "sources": {"networks"},
}
EVERY = set(ROOMS)
ROOMS |= {"integrations": EVERY, "experiments": EVERY, "cli": EVERY}
ROOT = Path(__file__).parents[1]
FILES = [*ROOT.glob("sigmascope/**/*.py"), *ROOT.glob("benchmarks/*.py")]


def rooms_imported(path):
    """`[room, module inside, ...]` of every import, also those inside functions."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (
                a.name.split(".")[1:] for a in node.names if a.name.startswith("sigmascope.")
            )
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path.name}: relative import"
            if node.module == "sigmascope":
                yield from ([a.name] for a in node.names)
            elif node.module.startswith("sigmascope."):
                yield node.module.split(".")[1:]


@pytest.mark.parametrize("path", FILES, ids=lambda p: str(p.relative_to(ROOT)))
def test_imports_point_down_and_go_through_the_door(path):
    inside_package = path.relative_to(ROOT).parts[1:]
    here = inside_package[0].removesuffix(".py") if path.is_relative_to(ROOT / "sigmascope") else ""
    allowed = ROOMS.get(here, EVERY | {"cli"})
    for room, *module in rooms_imported(path):
        if room in {here, "__version__"}:
            continue
        assert room in allowed, f"{here or path.parent.name} may not import {room}"
        assert not module, f"import from sigmascope.{room}, not from a module inside it"


def test_every_room_is_listed():
    rooms = {p.parent.name for p in ROOT.glob("sigmascope/*/__init__.py")}
    assert rooms == set(ROOMS) - {"cli"}
