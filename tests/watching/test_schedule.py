"""Which probes a watch has, and the rounds in which they are read."""

import logging

import pytest
import torch
from torch import nn

from sigmascope.core.guard import Refusal
from sigmascope.watching.parameters import places
from sigmascope.watching.probes import Losses, Probe, ProbeBatch
from sigmascope.watching.processes import Processes
from sigmascope.watching.schedule import Scheduler, chosen
from sigmascope.watching.sinks import Column
from tests.watching.made import Ticks, stack, task

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
