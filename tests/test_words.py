"""What docstrings, comments and pages name is there."""

import importlib
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
ROOMS = sorted(p.parent.name for p in (ROOT / "sigmascope").glob("*/__init__.py"))
NAMES = re.compile(rf"`(?:ss\.|sigmascope\.)?((?:{'|'.join(ROOMS)})(?:\.\w+)+)[`(]")
KINDS = (".py", ".md", ".toml")


def is_there(name):
    """Whether a dotted name is a module, or something in one, fields of classes included."""
    words = name.split(".")
    for k in range(len(words), -1, -1):
        try:
            found = importlib.import_module(".".join(("sigmascope", *words[:k])))
        except ImportError:
            continue
        for word in words[k:]:
            if word in getattr(found, "__annotations__", ()):
                return True
            if not hasattr(found, word):
                return False
            found = getattr(found, word)
        return True
    return False


def texts(folder, *kinds):
    """The name of every file of a kind, and what it says."""
    for file in sorted((ROOT / folder).rglob("*")):
        if file.suffix in kinds and "_build" not in file.parts:
            yield str(file.relative_to(ROOT)), file.read_text("utf-8")


@pytest.mark.parametrize(
    "folder", ["sigmascope", "sigmascope_experiments", "benchmarks", "tests", "docs"]
)
def test_what_files_name_of_the_package_is_there(folder):
    named = {(n, f) for f, text in texts(folder, *KINDS) for n in NAMES.findall(text)}
    missing = {name for name, _ in named if not name.endswith(KINDS) and not is_there(name)}
    assert named or folder == "sigmascope_experiments"
    assert not sorted(pair for pair in named if pair[0] in missing)


def test_what_is_not_there_is_noticed():
    assert is_there("linalg.spectral_norm")
    assert is_there("records.Profile.readings")
    assert not is_there("linalg.spectral_nrom")
    assert not is_there("models.state.reaches")
