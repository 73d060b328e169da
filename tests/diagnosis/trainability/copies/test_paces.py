"""Steps are foretold after a few, and stop where not all will be made in time."""

import math
from contextlib import suppress

import pytest

from sigmascope.diagnosis.trainability.copies import Pace
from sigmascope.gate import Budget, OverBudget, seconds_of
from tests.clocks import Clock


def made(pace, clock, seconds):
    def step():
        clock.now += seconds
        return "done"

    with pace.budget.counting():
        return pace.made_in_time(step)


def paced(seconds, steps, **more):
    clock = Clock()
    return clock, Pace(Budget(seconds, clock=clock, **more), "It", steps)


def test_all_steps_are_made_where_there_is_time():
    clock, pace = paced(10.0, 10)
    assert [made(pace, clock, 0.9) for _ in range(10)] == ["done"] * 10
    assert (pace.made, pace.fastest) == (10, pytest.approx(0.9))


def test_what_is_too_long_is_known_after_a_twentieth_of_the_budget():
    clock, pace = paced(100.0, 336)
    for _ in range(5):
        made(pace, clock, 1.0)
    with pytest.raises(OverBudget, match=r"336 training steps, about 5.6min, and 5 were made"):
        made(pace, clock, 1.0)
    assert clock.now == 5.0  # of 100
    clock, pace = paced(10.0, 336)
    for _ in range(3):
        made(pace, clock, 1.0)
    with pytest.raises(OverBudget, match="3 were made"):
        made(pace, clock, 1.0)


def test_a_machine_that_was_busy_for_a_moment_stops_nothing():
    clock, pace = paced(120.0, 336)
    for _ in range(3):
        made(pace, clock, 1.8)
    for _ in range(333):
        made(pace, clock, 0.06)
    assert pace.made == 336


def test_a_slow_first_step_foretells_nothing():
    clock, pace = paced(100.0, 50)
    made(pace, clock, 40.0)
    for _ in range(49):
        made(pace, clock, 1.0)
    assert pace.made == 50


def test_steps_that_grow_slow_end_with_the_budget():
    clock, pace = paced(20.0, 20)
    for _ in range(3):
        made(pace, clock, 0.5)
    with suppress(OverBudget):
        for _ in range(17):
            made(pace, clock, 5.0)
    assert pace.made < 20
    assert 10.0 < clock.now <= 20.0


def test_what_is_proposed_is_enough():
    clock, pace = paced(10.0, 336)
    for _ in range(3):
        made(pace, clock, 1.0)
    words = pace.words()
    proposed = seconds_of(words.split("`--budget ")[1].split("`")[0])
    assert proposed == 420 == float(words.split("budget=")[1].split("`")[0])
    assert proposed > pace.needed


def test_those_who_share_a_budget_are_told_of_the_whole():
    clock = Clock()
    pace = Pace(Budget(10.0, clock=clock), "It", 60, among=4)
    for _ in range(3):
        made(pace, clock, 1.0)
    assert "in a budget of 10s for each of 4" in pace.words()
    assert "`--budget 5min`" in pace.words()  # 4 times 60 steps of a second, and some more


def test_the_cost_is_told_once_and_only_if_it_is_felt():
    told = []
    clock, pace = paced(1000.0, 100, tell=told.append)
    pace.beside = ", 1 GiB of memory"
    for _ in range(9):
        made(pace, clock, 1.0)
    assert told == ["It: 100 training steps, about 1.67min, 1 GiB of memory; the budget is 16.7min"]
    clock, short = paced(1000.0, 100, tell=told.append)
    for _ in range(9):
        made(short, clock, 0.01)
    assert len(told) == 1


def test_nothing_is_foretold_of_no_steps():
    clock, pace = paced(1.0, 5)
    clock.now = 2.0
    with pace.budget.counting():
        clock.now += 3.0
    with pytest.raises(OverBudget, match="needs 5 training steps, and 0 were made"):
        made(pace, clock, 1.0)
    assert pace.fastest == math.inf


@pytest.mark.parametrize(
    ("budget", "step", "minutes"),
    [(5.0, 0.1, 1), (20.0, 1.3, 3), (29.0, 0.96, 2), (29.0, 0.97, 3), (90.0, 0.1, 3)],
)
def test_the_budget_that_is_proposed_is_whole_minutes_and_enough(budget, step, minutes):
    clock, pace = paced(budget, 100)
    made(pace, clock, step)
    assert f"`--budget {minutes}min` (`budget={60 * minutes}` in Python)" in pace.words()
    assert 60 * minutes >= max(1.25 * 100 * step, 2 * budget)
