"""Budgets of time: what words mean, and how time is counted."""

import math
from contextlib import suppress

import pytest

from sigmascope.core.guard import Budget, Refusal, seconds_of, time_words
from tests.clocks import Clock


@pytest.mark.parametrize(
    ("words", "seconds"),
    [("60s", 60), ("2min", 120), ("1.5 h", 5400), ("90", 90), (" 0.5 S ", 0.5), ("10 sec", 10)],
)
def test_words_are_seconds(words, seconds):
    assert seconds_of(words) == seconds


@pytest.mark.parametrize(
    "words",
    [
        "0",
        "-1",
        "abc",
        "",
        "s",
        "1e5",
        "nan",
        "inf",
        "2 days",
        "1m",
        "60ss",
        "٣s",
        "9" * 400,
        "0min",
    ],
)
def test_what_is_no_time_above_zero_is_refused(words):
    with pytest.raises(Refusal, match="must be above zero and read like `60s`, `2min` or `1h`"):
        seconds_of(words)


@pytest.mark.parametrize("seconds", [0, -1, math.nan, True])
def test_a_budget_is_a_number_of_seconds_above_zero(seconds):
    with pytest.raises(Refusal, match="`budget` must be seconds above 0"):
        Budget.of(seconds)


@pytest.mark.parametrize("seconds", [0.25, 5.0, 48.0, 90.0, 120.0, 720.0, 12600.0, 86400.0])
def test_a_time_is_read_as_it_is_written(seconds):
    assert seconds_of(time_words(seconds)) == seconds


def test_time_counts_in_blocks_alone():
    clock = Clock()
    budget = Budget(10.0, clock=clock)
    clock.now = 100.0
    assert budget.left == 10.0
    with budget.counting():
        clock.now += 3
        with budget.counting():  # the same time is not counted twice
            clock.now += 1
        assert budget.left == 6.0
    clock.now += 50
    assert (budget.used, budget.left) == (4.0, 6.0)
    with suppress(KeyError), budget.counting():
        clock.now += 7
        raise KeyError
    assert budget.left == -1.0


def test_none_is_as_long_as_it_takes():
    clock = Clock()
    budget = Budget.of(None)
    assert budget.left == math.inf
    endless = Budget(math.inf, clock=clock)
    with endless.counting():
        clock.now += 9
    assert (endless.used, endless.left) == (9.0, math.inf)
    assert Budget.of(budget) is budget
