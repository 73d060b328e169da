"""What the benchmark of mutants takes for a change that changes nothing is a line that is there."""

from pathlib import Path

import pytest

from benchmarks._equivalents import SAME

ROOT = Path(__file__).parents[1] / "sigmascope"


@pytest.mark.parametrize("key", SAME, ids=lambda key: f"{key[0]}: {key[2]}")
def test_a_change_that_changes_nothing_is_of_a_line_that_is_there(key):
    path, line, _ = key
    lines = [each.strip() for each in (ROOT / path).read_text(encoding="utf-8").splitlines()]
    assert line in lines
    assert SAME[key]
