"""What is kept of the comparison with other packages is of the versions that are pinned."""

import json
import tomllib
from pathlib import Path

import pytest

from benchmarks.peers import _rows

ROOT = Path(__file__).parents[1]
KEPT = json.loads((ROOT / "benchmarks/peers/results.json").read_text(encoding="utf-8"))
EXTRAS = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
PINNED = dict(want.split("==") for want in EXTRAS["peers"] if "==" in want)


def test_what_was_measured_is_what_is_pinned():
    assert PINNED
    for name, version in PINNED.items():
        assert KEPT["versions"][name] == version, f"{name}: python -m benchmarks.peers"


@pytest.mark.parametrize("name", KEPT["answers"])
def test_an_answer_has_ours_and_another(name):
    for answer in KEPT["answers"][name]:
        assert _rows.OURS in answer["found"]
        assert any(not who.startswith(_rows.OURS) for who in answer["found"])
        assert set(answer["asked"]) <= set(answer["found"])


def test_ratios_are_over_ours():
    assert _rows.ratios({_rows.OURS: 2.0, "another": 3.0}) == {_rows.OURS: 1.0, "another": 1.5}


def test_times_are_medians_and_the_first_round_is_not_counted():
    calls = []
    times = _rows.processor_times({"one": lambda: calls.append(1)}, rounds=3)
    assert len(calls) == 4
    assert times["one"] >= 0
