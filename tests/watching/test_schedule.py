"""Which probes a watch has, and the rounds in which they are read."""

import logging

import pytest
import torch
from hypothesis import given, strategies as st
from torch import nn

from sigmascope.core.guard import Refusal
from sigmascope.watching.probes import Losses, Probe, ProbeBatch
from sigmascope.watching.probes.base import places
from sigmascope.watching.processes import Processes
from sigmascope.watching.schedule import Buckets, Scheduler, chosen
from sigmascope.watching.sinks import Column
from tests.watching.made import Ticks, stack, task

ADVANCE = 0.1

X, Y = task()


def names(probe=None, views=None, only=None):
    model = stack(5, 4, 3).double()
    found = places(model, [torch.optim.SGD(model.parameters(), lr=0.1)])
    wanted = {"probe": probe, "views": views, "only": only, "compiled": False}
    return [p.name for p in chosen(model, found, Processes(), Losses(), **wanted)]


def test_without_a_probe_batch_training_itself_is_read():
    assert names() == ["loss", "gradients", "updates", "activations", "attention",
                       "representations", "spectra"]  # fmt: skip


def test_a_probe_batch_adds_what_it_is_enough_for():
    assert names(ProbeBatch(X))[-1] == "profile"
    assert names(ProbeBatch(X, Y, nn.MSELoss()))[-2:] == ["sharpness", "profile"]
    assert names(ProbeBatch(X, Y, nn.MSELoss()), views=())[-1] == "sharpness"
    assert names(ProbeBatch(X), views=["balances"])[-2:] == ["profile", "conservation"]


def test_some_are_chosen_and_the_loss_is_always_there():
    assert names(only=["updates"]) == ["loss", "updates"]


def test_what_is_not_there_is_refused_with_what_it_needs():
    with pytest.raises(Refusal, match="`sharpness` needs `probe_batch`"):
        names(only=["sharpness"])


OPTIMIZER = torch.optim.SGD([torch.zeros(1, requires_grad=True)], lr=0.1)


class Made(Probe):
    """A probe that notes what it is asked."""

    name, share = "made", 1.0

    def __init__(self):
        self.asked = []

    def open(self):
        self.asked.append("open")

    def before(self, optimizer):
        self.asked.append("before")

    def stepped(self, optimizer):
        self.asked.append("stepped")

    def local(self):
        self.asked.append("local")
        return torch.ones(2, dtype=torch.float64)

    def read(self, total):
        self.asked.append("read")
        yield Column("dead units", ["a"], [float(total.sum())])


def rounds(*probes):
    clock = Ticks(1e-6)
    made = Scheduler(probes, Processes(), 0.5, clock, 0)
    return made, clock


def one(made, clock, step):
    """A step that is looked at."""
    made.open()
    clock.wait(1.0)
    made.before(OPTIMIZER)
    made.stepped(OPTIMIZER)
    found = made.read(step)
    made.settle(step, 0.0)
    return found


def test_a_round_asks_in_order_and_hands_over_what_was_found():
    probe = Made()
    found = one(*rounds(probe), 1)
    assert probe.asked == ["open", "before", "stepped", "local", "read"]
    assert [c.values for c in found] == [[2.0]]


def test_the_next_round_is_when_its_turn_is_paid():
    made, clock = rounds(Made())
    one(made, clock, 1)
    assert made.next == 2
    assert made.buckets.spent < 1e-3


def test_what_fails_is_dropped_with_one_line_and_asked_no_more(caplog):
    class Broken(Made):
        name = "broken"

        def stepped(self, optimizer):
            raise ValueError("of ours")

    broken, sound = Broken(), Made()
    made, clock = rounds(broken, sound)
    assert len(one(made, clock, 1)) == 1
    assert len(one(made, clock, 2)) == 1
    assert broken.asked.count("open") == 1
    assert [(s.what, s.why) for s in made.dropped] == [("broken", "ValueError: of ours")]
    assert [r.levelno for r in caplog.records] == [logging.WARNING]


def test_a_hurried_look_is_at_the_next_step_and_not_at_each():
    made, _ = rounds(Made())
    made.next = 50
    made.opened = False
    assert made.hurry(10)
    assert made.next == 11
    made.open()
    assert not made.hurry(10)
    made.close()
    assert not made.opened


class Dear(Made):
    """One that no hurried look reads."""

    name, first = "dear", 9


def test_what_was_due_anyway_is_read_with_what_is_hurried_and_what_is_due_later_is_not():
    asked, dear = Made(), Dear()
    for at, read in ((11, [dear, asked]), (50, [asked])):
        made, _ = rounds(asked, dear)
        made.next, made._due = at, [dear]
        assert made.hurry(10, "made")
        assert made.next == 11
        assert {*made._due} == {*read}


def test_what_is_asked_for_at_fixed_steps_is_read_there_alone_and_owes_nothing():
    quick, asked = Made(), Made()
    asked.name, asked.share, asked.every = "asked", 0.0, 5
    made, clock = rounds(quick, asked)
    asked.local = lambda: (clock.wait(3.0), torch.zeros(1))[1]
    for step in range(1, 11):
        again = step == 5  # an alarm that is not sure wants what was read once more, not this
        made.open()
        clock.wait(1.0)
        made.read(step)
        must = made.must_file
        made.settle(step, 0.0, again=again)
        assert must == (step in (1, 5, 10))
        assert made.next == step + 1
    assert asked.asked.count("open") == 3
    assert quick.asked.count("open") == 10
    assert 9.0 < made.buckets.spent < 10.0


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
    buckets.earn(2.0, 1)  # two in a row are what steps take, the shorter of them
    assert buckets.trained - before == pytest.approx(2.0, abs=0.1)


@pytest.mark.parametrize("first", [1e-6, 1e-2])
def test_steps_that_take_longer_from_now_on_are_no_pauses(first):
    """Nor are all steps behind one that was measured far too short."""
    buckets = Buckets([probe(1.0)], 0.02)
    buckets.earn(first, 1)
    for _ in range(100):
        buckets.earn(0.1, 1)
    assert buckets.trained > 9
    assert buckets.step_seconds == pytest.approx(0.1, rel=0.01)


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
