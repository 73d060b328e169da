"""What the benchmark of mutants takes for a change that changes nothing is a line that is there."""

from pathlib import Path

from benchmarks._equivalents import SAME

ROOT = Path(__file__).parents[1] / "sigmascope"


def test_a_change_that_changes_nothing_is_of_a_line_that_is_there():
    for (path, line, _), reason in SAME.items():
        lines = [each.strip() for each in (ROOT / path).read_text(encoding="utf-8").splitlines()]
        assert line in lines, path
        assert reason
