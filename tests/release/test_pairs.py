"""Which pairs are tested, and what is said where one cannot be."""

import re
import sys
import tomllib
from pathlib import Path

import pytest

from tests.release import pairs


def test_the_oldest_pair_is_what_the_project_names_as_its_least():
    asked = pairs.requirements_of("oldest", None)
    extras = [r for e in pairs.EXTRAS for r in pairs.PROJECT["optional-dependencies"][e]]
    assert any(r.startswith("pyarrow") for r in extras)
    for requirement in pairs.PROJECT["dependencies"] + extras:
        name, least = re.match(r"([\w.-]+)>=([\d.]+)", requirement).groups()
        assert f"{name}=={least}" in asked
    assert pairs.pythons()[0] == pairs.PROJECT["requires-python"].removeprefix(">=")


def test_every_supported_python_is_a_classifier_and_the_newest_is_the_last():
    assert pairs.pythons() == sorted(pairs.pythons(), key=lambda v: [*map(int, v.split("."))])
    assert all(re.fullmatch(r"3\.\d\d", version) for version in pairs.pythons())


def test_another_torch_takes_the_place_of_the_least():
    asked = pairs.requirements_of("oldest", "torch==9.9")
    assert [r for r in asked if r.startswith("torch")] == ["torch==9.9"]
    assert pairs.requirements_of("newest", "torch==9.9")[0] == "torch==9.9"


def test_a_dependency_without_a_least_version_is_refused():
    with pytest.raises(ValueError, match="needs a least version, got 'numpy'"):
        pairs.least(["numpy"])


@pytest.mark.parametrize(
    ("named", "says"),
    [
        ("/nowhere/python3.11", "but there is none"),
        (sys.executable, "but it is Python 3."),
        (None, "but there is none"),
    ],
)
def test_an_interpreter_that_is_not_there_is_a_failure(monkeypatch, named, says):
    monkeypatch.setattr(pairs, "pythons", lambda: ["3.98", "3.99"])
    with pytest.raises(SystemExit) as end:
        pairs.main(["newest", *(["--python", named] if named else [])])
    assert says in end.value.code
    assert "Python 3.99" in end.value.code
    assert "Nothing was tested" in end.value.code


def test_the_interpreter_that_runs_this_is_found():
    version = ".".join(map(str, sys.version_info[:2]))
    assert pairs.interpreter(version, sys.executable) == sys.executable


def test_torch_of_the_makefile_is_one_that_is_supported():
    root = Path(pairs.ROOT)
    chosen = re.search(r"^TORCH \?= torch==([\d.]+)", (root / "Makefile").read_text(), re.M)[1]
    project = tomllib.loads((root / "pyproject.toml").read_text())["project"]
    least = next(r for r in project["dependencies"] if r.startswith("torch>=")).partition(">=")[2]
    assert [*map(int, chosen.split("."))] >= [*map(int, least.split("."))]
