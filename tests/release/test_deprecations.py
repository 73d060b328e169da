"""What is on its way out says so by one form, and is gone when it was said to be."""

import ast
import re
from pathlib import Path

import pytest
from typing_extensions import deprecated

import sigmascope

ROOT = Path(__file__).parents[2]
FORM = re.compile(r"since (\d+)\.(\d+): use `[^`]+`; it goes in (\d+)\.(\d+)\.")


def faults(source, version):
    """What is wrong with the deprecations of a file, a line each."""
    now = tuple(map(int, version.split(".")[:2]))
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "deprecated":
            said = ast.unparse(node.args[0])[1:-1]
            match = FORM.fullmatch(said)
            if match is None:
                yield f"{said!r} must read 'since 0.2: use `other`; it goes in 0.4.'"
                continue
            since, goes = (tuple(map(int, match.groups()[i : i + 2])) for i in (0, 2))
            if goes <= now:
                yield f"{said!r}: that is now, delete it"
            if goes[0] == since[0] and goes[1] < since[1] + 2:
                yield f"{said!r}: two minor versions must lie between"


def test_every_deprecation_of_the_package_keeps_the_rule():
    for room in ("sigmascope", "sigmascope_experiments"):
        for file in (ROOT / room).rglob("*.py"):
            if "deprecated" in (source := file.read_text("utf-8")):
                assert [*faults(source, sigmascope.__version__)] == [], file


@pytest.mark.parametrize(
    ("words", "version", "says"),
    [
        ("since 0.2: use `new`; it goes in 0.4.", "0.3.1", None),
        ("since 0.2: use `new`; it goes in 1.0.", "0.9.0", None),
        ("since 0.2: use `new`; it goes in 0.4.", "0.4.0", "that is now"),
        ("since 0.2: use `new`; it goes in 0.3.", "0.2.0", "two minor versions"),
        ("old", "0.1.0", "must read"),
    ],
)
def test_the_rule_has_teeth(words, version, says):
    found = [*faults(f"@deprecated({words!r})\ndef old(): ...", version)]
    assert len(found) == (says is not None)
    assert says is None or says in found[0]


def test_who_calls_what_is_deprecated_is_told():
    @deprecated("since 0.2: use `new`; it goes in 0.4.")
    def old():
        return 3

    with pytest.warns(DeprecationWarning, match="use `new`; it goes in 0.4"):
        assert old() == 3


def test_the_version_is_told_alike_everywhere():
    cited = re.search(r"^version: (.*)$", (ROOT / "CITATION.cff").read_text("utf-8"), re.M)[1]
    assert cited == sigmascope.__version__
    changes = (ROOT / "CHANGELOG.md").read_text("utf-8")
    assert re.search(r"^## ([\d.]+)", changes, re.M)[1] == sigmascope.__version__
