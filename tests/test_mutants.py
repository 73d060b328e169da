"""What the benchmark of mutants tries, and takes for a change that changes nothing."""

import builtins
from pathlib import Path

from benchmarks import _forks as forks, mutants
from benchmarks._equivalents import SAME
from benchmarks._mutations import Mutant

ROOT = Path(__file__).parents[1] / "sigmascope"


def test_a_change_that_changes_nothing_is_of_a_line_that_is_there():
    for (path, line, _), reason in SAME.items():
        lines = [each.strip() for each in (ROOT / path).read_text(encoding="utf-8").splitlines()]
        assert line in lines, path
        assert reason


def test_what_runs_while_tests_are_collected_is_run_for_each_of_them(tmp_path, monkeypatch):
    """A table of cases that is made then tells of a change as much as a call in a test."""
    file, ran = tmp_path / "test_two.py", set()
    file.write_text("__ran__(3)\ndef test_one(): __ran__(5)\ndef test_other(): pass\n")
    monkeypatch.setattr(builtins, "__ran__", ran.add, raising=False)
    ran.add(7)  # on import
    found = forks.in_fork(lambda: forks.trace(str(file), ["module.py"], ran), seconds=60)
    lines = {test.rpartition(":")[2]: ran for test, (_, ran) in found.items()}
    assert lines == {
        "test_one": {"module.py": f"{1 << 5 | 1 << 3:x}"},
        "test_other": {"module.py": f"{1 << 3:x}"},
    }


def test_a_change_of_what_runs_on_import_is_tried_against_whatever_its_users_run():
    path = "sigmascope/core/quantities.py"
    inside = Mutant(path, 9, 9, 0, 1, "+", "-", inside=True)
    found = {
        "tests/a.py::it": [1.0, {path: f"{1 << 9:x}"}],
        "tests/b.py::it": [1.0, {path: f"{1 << 8:x}"}],
        "tests/c.py::it": [1.0, {"sigmascope/report/explanations.py": "1"}],
        "tests/d.py::it": [1.0, {"sigmascope/core/guard/__init__.py": "1"}],
    }
    assert set(mutants.chosen(found, inside, 60.0)) == {"tests/a.py::it"}
    known = mutants.as_it_runs([inside], {path: f"{1 << 9:x}"})
    assert [m.inside for m in known] == [False]
    assert [m.inside for m in mutants.as_it_runs([inside], {path: f"{1 << 8:x}"})] == [True]
    assert set(mutants.chosen(found, known[0], 60.0)) == {*list(found)[:3]}
