"""What probes may take is a share of the time trained, whatever they cost."""

import pytest
import torch
from hypothesis import given, strategies as st

from sigmascope.watching.budget import ADVANCE, Buckets
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
    """Train for some steps and take turns as planned; the buckets, and how often each was read."""
    probes = [probe(1.0) for _ in costs]
    buckets = Buckets(probes, budget)
    at, due, last = 1, probes, 0
    for now in range(1, steps + 1):
        if now < at:
            continue
        buckets.earn((now - last) * step, now - last)
        for each in due:
            buckets.pay(each, costs[probes.index(each)], now)
        at, due = buckets.plan(now)
        last = now
    return buckets


@given(
    st.lists(st.floats(1e-5, 0.05), min_size=1, max_size=5),
    st.floats(0.002, 0.5),
    st.floats(1e-4, 0.1),
)
def test_turns_never_take_more_than_the_budget_and_a_first_and_last_turn(costs, budget, step):
    buckets = ran(costs, budget, step, 3000)
    allowed = budget * buckets.trained + ADVANCE + 2 * sum(costs)
    assert buckets.spent <= allowed


def test_a_pause_earns_nothing():
    buckets = Buckets([probe(1.0)], 0.02)
    for _ in range(10):
        buckets.earn(0.1, 10)
    before = buckets.trained
    buckets.earn(3600.0, 1)
    assert buckets.trained - before < 0.1


def test_what_a_dropped_probe_had_goes_to_the_others_and_with_none_left_nothing_is_due():
    one, other = probe(1.0), probe(3.0)
    buckets = Buckets([one, other], 0.02)
    buckets.drop(other)
    assert [p.share for p in buckets.buckets] == [1.0]
    assert buckets.plan(5)[1] == [one]
    buckets.drop(one)
    at, due = buckets.plan(7)
    assert due == []
    assert at > 7


def test_what_is_no_probes_is_paid_first_and_probes_take_what_is_left():
    spent = []
    for aside in (0.0, 1e-4):
        buckets = Buckets([probe(1.0)], 0.02)
        at, due = 1, [p.probe for p in buckets.buckets]
        for now in range(1, 20_001):
            buckets.aside(aside)
            buckets.earn(1e-2, 1)
            if now >= at:
                for each in due:
                    buckets.pay(each, 1e-3, now)
                at, due = buckets.plan(now)
        spent.append(buckets.spent)
        assert buckets.spent < 0.02 * buckets.trained + ADVANCE
    assert spent[1] > 0.8 * spent[0]


def test_an_advance_pays_only_what_was_not_earned():
    buckets = Buckets([probe(1.0)], 0.02)
    (one,) = buckets.buckets
    one.held = 9e-4
    buckets.pay(one.probe, 1e-3, 1)
    assert one.held == 0
    assert one.advance == ADVANCE - 1e-4


@pytest.mark.parametrize("costs", [[1e-3], [1e-3, 2e-3]])
def test_a_budget_that_can_pay_is_used_but_a_quarter_for_what_no_clock_sees(costs):
    buckets = ran(costs, 0.02, 1e-2, 50_000)
    assert buckets.spent / buckets.trained == pytest.approx(0.75 * 0.02, rel=0.01)


def test_a_purse_holds_four_turns_however_long_nothing_was_read():
    one = probe(1.0)
    buckets = Buckets([one], 0.02)
    buckets.pay(one, 1e-2, 1)
    buckets.pay(one, 1e-2, 2)
    buckets.earn(1e4, 1_000_000)
    (bucket,) = buckets.buckets
    assert bucket.held == pytest.approx(4 * bucket.cost)


def test_what_is_asked_for_at_fixed_steps_is_due_there_whatever_it_costs():
    paid, asked = probe(1.0), probe(0.0)
    asked.every = 50
    buckets = Buckets([paid, asked], 0.02)
    buckets.pay(paid, 1e6, 1)
    assert [buckets.plan(step) for step in (1, 49, 50, 51)] == [
        (50, [asked]), (50, [asked]), (100, [asked]), (100, [asked])
    ]  # fmt: skip
    assert buckets.buckets[0].share == 1
