"""Every figure tests something at quick size, says what it does not test, and can fail."""

import copy
import json
import math
import random
from dataclasses import replace
from pathlib import Path

import pytest

from sigmascope_experiments import FIGURES, Claim, reproduce
from sigmascope_experiments.daneshmand2020 import comparisons
from sigmascope_experiments.figures import only_if, untested
from sigmascope_experiments.runs import Result
from sigmascope_experiments.seeds import at_least, difference

# training is cut here: what networks start with is judged at any size
CUT = {"samples": 64, "epochs": 1, "seeds": 2}


def small(figure):
    trains = figure.tasks is comparisons.tasks
    return replace(figure, quick={**figure.quick, **CUT}) if trains else figure


def falsified(value, change):
    if isinstance(value, dict):
        return {k: v if k == "task" else falsified(v, change) for k, v in value.items()}
    if isinstance(value, list):
        return [falsified(v, change) for v in value]
    if isinstance(value, str):
        return value.replace("holds", "violated")
    number = isinstance(value, int | float) and not isinstance(value, bool)
    return change(value) if number else value


RANDOM = random.Random(0)
FALSE = (
    lambda v: -v,
    lambda v: 1000.0 * v + 7,
    lambda v: v / 1000 - 7,
    lambda v: v * RANDOM.uniform(0.2, 5),  # numbers that no longer belong together
)


def outcomes(figure, rows):
    """What falsified rows show; rows that make no sense at all may raise."""
    for change in FALSE:
        wrong = falsified(copy.deepcopy(rows), change)
        try:
            yield [c.holds for c in figure.claims(wrong, figure.quick)]
        except (ValueError, ZeroDivisionError, KeyError, OverflowError, TypeError):
            continue


DEAR = (  # seconds each; `make quick` ends in 1 where one of them tests nothing
    "daneshmand2020/fig2", "daneshmand2020/fig4", "daneshmand2020/fig6", "daneshmand2020/fig11",
    "daneshmand2020/fig12", "daneshmand2020/pretraining-digits", "le2022/tails", "le2022/steps",
    "riedi2022/fig2", "riedi2022/fig3", "riedi2022/fig5", "jacot2023/example20",
    "daneshmand2020/fig3a", "daneshmand2020/fig8", "daneshmand2020/fig9", "daneshmand2020/fig10",
    "riedi2022/fig4", "riedi2022/fig8",
    "daneshmand2020/fig13",  # the comparison of fig5, of another network
)  # fmt: skip


@pytest.mark.parametrize(
    "figure",
    [pytest.param(f, marks=pytest.mark.slow if f.name in DEAR else ()) for f in FIGURES],
    ids=lambda f: f.name,
)
def test_every_figure_tests_something_that_falsified_rows_fail(figure, tmp_path):
    figure = small(figure)
    found = reproduce(figure, tmp_path, quick=True)
    tested = [c for c in found.claims if c.holds is not None]
    assert tested, "no claim is tested at quick size"
    assert all(c.found for c in found.claims)
    rows = [json.loads(json.dumps(r)) for r in found.rows]
    assert any(False in each for each in outcomes(figure, rows))


@pytest.mark.slow
@pytest.mark.parametrize("figure", FIGURES, ids=lambda f: f.name)
def test_what_is_tested_at_quick_size_holds(figure, tmp_path):
    found = reproduce(figure, tmp_path, quick=True)
    assert not found.failed
    assert [c for c in found.claims if c.holds is False] == []


@pytest.mark.parametrize("figure", FIGURES, ids=lambda f: f.name)
def test_networks_are_compared_over_several_seeds(figure):
    for config in filter(None, (figure.usual, figure.quick, figure.full)):
        if figure.tasks is comparisons.tasks:
            assert config["seeds"] >= 4


def test_a_difference_has_the_interval_of_student():
    mean, low, high = difference([3.0, 5.0, 4.0], [1.0, 2.0, 3.0])
    half = 4.302652729911275 * 1 / math.sqrt(3)
    assert mean == 2
    assert (low, high) == pytest.approx((2 - half, 2 + half), rel=1e-9)


def test_intervals_hold_the_truth_as_often_as_they_say():
    import torch

    g = torch.Generator().manual_seed(0)
    draws = torch.randn(2000, 2, 4, generator=g, dtype=torch.float64) + torch.tensor([[0.3], [0]])
    ends = [difference(a.tolist(), b.tolist())[1:] for a, b in draws]
    held = sum(low <= 0.3 <= high for low, high in ends) / len(ends)
    assert 0.935 < held < 0.965


@pytest.mark.parametrize(
    ("first", "second", "holds"),
    [
        ([0.9, 0.91, 0.92], [0.1, 0.12, 0.11], True),
        ([0.1, 0.12, 0.11], [0.9, 0.91, 0.92], False),
        ([0.5, 0.4, 0.6], [0.4, 0.5, 0.55], None),  # seeds differ by more than the kinds do
        ([0.5, 0.5], [0.5, 0.5], True),
        ([0.9], [0.1], None),
    ],
)
def test_one_kind_is_at_least_another_where_the_interval_says_so(first, second, holds):
    claim = at_least("a is at least b", first, second)
    assert claim.holds is holds
    assert "seed" in claim.found
    assert ("in [" in claim.found) is (len(first) > 1)


def test_what_is_not_there_is_not_compared():
    rows = [
        {"task": {"kind": "a", "rate": 0.1, "seed": s}, "final": {"accuracy": 0.5}} for s in (0, 1)
    ]
    claim = comparisons.ordered(rows, "a", "b")
    assert (claim.holds, claim.found) == (None, "b is not trained at this size")


def test_a_figure_of_which_nothing_is_tested_fails():
    of = lambda *claims: Result((), claims, Path(), None).failed
    yes, no, open_one = Claim("a", "1", True), Claim("a", "1", False), untested("a", "too few")
    assert [of(yes), of(yes, open_one), of(yes, no), of(open_one), of()] == [
        False, False, True, True, True,
    ]  # fmt: skip


def test_claims_that_need_more_are_listed_instead():
    asked = []

    def claims():
        asked.append(1)
        yield Claim("it falls", "3, 2, 1", True)

    found = list(only_if(False, "1 step is too few", ["it falls"], claims()))
    assert found == [Claim("it falls", "1 step is too few", None)]
    assert not asked
    assert [c.holds for c in only_if(True, "", ["it falls"], claims())] == [True]
