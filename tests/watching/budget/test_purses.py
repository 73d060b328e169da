"""What probes may take is a share of the time trained, whatever they cost."""

import pytest
import torch
from hypothesis import given, strategies as st

from sigmascope.watching.budget import ADVANCE, Purses
from sigmascope.watching.probes import Probe


def probe(share, name="x"):
    class Made(Probe):
        def local(self):
            return torch.zeros(0)

        def read(self, total):
            yield from ()

    Made.share, Made.name = share, name
    return Made()


def ran(costs, budget, step, steps):
    """Train for some steps and take turns as planned; the purses, and how often each was read."""
    probes = [probe(1.0) for _ in costs]
    purses = Purses(probes, budget)
    at, due, last = 1, probes, 0
    for now in range(1, steps + 1):
        if now < at:
            continue
        purses.earn((now - last) * step, now - last)
        for each in due:
            purses.pay(each, costs[probes.index(each)], now)
        at, due = purses.plan(now)
        last = now
    return purses


@given(
    st.lists(st.floats(1e-5, 0.05), min_size=1, max_size=5),
    st.floats(0.002, 0.5),
    st.floats(1e-4, 0.1),
)
def test_turns_never_take_more_than_the_budget_and_a_first_and_last_turn(costs, budget, step):
    purses = ran(costs, budget, step, 3000)
    allowed = budget * purses.trained + ADVANCE + 2 * sum(costs)
    assert purses.spent <= allowed


def test_a_budget_that_can_pay_is_used():
    purses = ran([1e-3, 2e-3], 0.02, 1e-2, 20_000)
    assert 0.015 < purses.spent / purses.trained < 0.02


def test_a_pause_earns_nothing():
    purses = Purses([probe(1.0)], 0.02)
    for _ in range(10):
        purses.earn(0.1, 10)
    before = purses.trained
    purses.earn(3600.0, 1)
    assert purses.trained - before < 0.1


def test_what_a_dropped_probe_had_goes_to_the_others():
    one, other = probe(1.0), probe(3.0)
    purses = Purses([one, other], 0.02)
    purses.drop(other)
    assert [p.share for p in purses.purses] == [1.0]
    assert purses.plan(5)[1] == [one]


def test_with_no_probe_left_nothing_is_due():
    one = probe(1.0)
    purses = Purses([one], 0.02)
    purses.drop(one)
    at, due = purses.plan(7)
    assert due == []
    assert at > 7


def test_what_is_no_probes_is_paid_first_and_probes_take_what_is_left():
    spent = []
    for aside in (0.0, 1e-4):
        purses = Purses([probe(1.0)], 0.02)
        at, due = 1, [p.probe for p in purses.purses]
        for now in range(1, 20_001):
            purses.aside(aside)
            purses.earn(1e-2, 1)
            if now >= at:
                for each in due:
                    purses.pay(each, 1e-3, now)
                at, due = purses.plan(now)
        spent.append(purses.spent)
        assert purses.spent < 0.02 * purses.trained + ADVANCE
    assert spent[1] > 0.8 * spent[0]


def test_an_advance_pays_only_what_was_not_earned():
    purses = Purses([probe(1.0)], 0.02)
    (one,) = purses.purses
    one.held = 9e-4
    purses.pay(one.probe, 1e-3, 1)
    assert one.held == 0
    assert one.advance == ADVANCE - 1e-4


def test_a_quarter_of_the_budget_is_kept_back_for_what_no_clock_sees():
    purses = ran([1e-3], 0.02, 1e-2, 50_000)
    assert purses.spent / purses.trained == pytest.approx(0.75 * 0.02, rel=0.01)


def test_a_purse_holds_four_turns_however_long_nothing_was_read():
    one = probe(1.0)
    purses = Purses([one], 0.02)
    purses.pay(one, 1e-2, 1)
    purses.pay(one, 1e-2, 2)
    purses.earn(1e4, 1_000_000)
    (purse,) = purses.purses
    assert purse.held == pytest.approx(4 * purse.cost)


def test_what_is_asked_for_at_fixed_steps_is_due_there_whatever_it_costs():
    paid, asked = probe(1.0), probe(0.0)
    asked.every = 50
    purses = Purses([paid, asked], 0.02)
    purses.pay(paid, 1e6, 1)
    assert [purses.plan(step) for step in (1, 49, 50, 51)] == [
        (50, [asked]), (50, [asked]), (100, [asked]), (100, [asked])
    ]  # fmt: skip
    assert purses.purses[0].share == 1
