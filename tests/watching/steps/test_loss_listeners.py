"""Losses and rates are heard, some at a time, all of them."""

import math

import pytest
import torch

from sigmascope.watching.alarms import Alarms
from sigmascope.watching.budget import Buckets
from sigmascope.watching.probes import Losses
from sigmascope.watching.steps import CALLS, FEWEST, MOST, LossListener, LossMeans
from tests.watching.made import Ticks


class Heard(Alarms):
    def __init__(self):
        super().__init__()
        self.losses, self.rates = [], []

    def hear(self, rates, losses, apart=1):
        self.losses += losses
        self.rates += rates
        return super().hear(rates, losses, apart)


class Stepped:
    """An optimizer, as far as it is heard."""

    def __init__(self):
        self.param_groups = [{"lr": 0.1}]


class Loop:
    """Steps that take so long each, heard when it is time."""

    def __init__(self, seconds, *, tick=1e-5, **options):
        self.alarms, self.read, self.buckets = Heard(), Losses(), Buckets([Losses()], 0.02)
        self.means = LossMeans()
        self.hearing = LossListener(
            self.alarms, self.read, self.means, 0.02, Ticks(tick), self.turn, **options
        )
        self.hearing.wait(math.inf)
        self.seconds, self.optimizer, self.turns, self.worth = seconds, Stepped(), 0, []

    def turn(self):
        self.turns += 1
        if self.hearing.full:
            self.hear()

    def hear(self):
        self.worth.append(self.hearing.hear(self.buckets))

    def step(self, loss=None):
        self.buckets.earn(self.seconds, 1)
        self.hearing.stepped(self.optimizer)
        if self.hearing.skip:
            self.hearing.skip -= 1
        elif loss is not None and self.hearing.loss(loss):
            self.hear()


def usual(step):
    return torch.tensor(1.0 + 0.01 * (step % 3), requires_grad=True)


def test_every_rate_is_heard_and_every_step_counted_however_short_steps_are():
    for seconds in (1.0, 1e-3, 1e-6):
        loop = Loop(seconds)
        for step in range(200):
            loop.step(usual(step))
            assert loop.hearing.steps == step + 1
        loop.hear()
        assert loop.alarms.rates == [0.1] * 200
        assert loop.hearing.steps == 200


def test_every_loss_of_long_steps_is_heard_in_order():
    loop = Loop(1.0)
    for step in range(200):
        loop.step(float(step))
    loop.hear()
    assert loop.alarms.losses == [float(i) for i in range(200)]


def test_usual_losses_are_heard_together_and_fewer_of_them_where_steps_are_short():
    found = {}
    for seconds in (1.0, 1e-5):
        loop = Loop(seconds)
        for step in range(800):
            loop.step(usual(step))
            assert step > 90 or loop.hearing.apart == 1
        found[seconds] = loop.hearing.apart, len(loop.worth)
        loop.hear()
        apart = 1 if seconds == 1.0 else FEWEST
        assert abs(len(loop.alarms.losses) - (100 + 700 / apart)) <= (0 if apart == 1 else 60)
    assert found[1.0][0] == 1
    assert found[1e-5][0] == FEWEST
    assert all(heard < 16 + 3 * 800 / MOST for _, heard in found.values())


def test_a_rise_is_heard_at_once_and_from_then_on_at_every_step():
    for seconds in (1.0, 1e-5):
        loop = Loop(seconds)
        for step in range(400):
            loop.step(usual(step))
        before = len(loop.alarms.losses)
        for _ in range(FEWEST + 3):
            loop.step(50.0)
        assert loop.alarms.losses[before:].count(50.0) >= 3
        assert any(loop.worth)


@pytest.mark.parametrize("loss", [math.nan, math.inf])
def test_a_loss_that_is_no_number_is_heard_at_once(loss):
    loop = Loop(1.0)
    for step in range(100):
        loop.step(usual(step))
    loop.step(loss)
    assert loop.worth[-1]


@pytest.mark.parametrize("factor", [100.0, 0.0])
def test_a_rate_that_leaves_what_is_usual_is_heard_at_once(factor):
    loop = Loop(1.0)
    for step in range(100):
        loop.step(usual(step))
    heard = len(loop.worth)
    loop.optimizer.param_groups[0]["lr"] *= factor
    loop.step(usual(0))
    assert len(loop.worth) == heard + 1
    assert loop.worth[-1]


def test_a_schedule_is_heard_some_steps_at_a_time():
    loop = Loop(1.0)
    for step in range(640):
        loop.optimizer.param_groups[0]["lr"] = 0.1 * (1 - step / 641)
        loop.step()
    assert len(loop.worth) <= 2 + 640 / MOST


def test_a_rate_in_a_tensor_is_counted_and_not_waited_for():
    class Elsewhere:
        def __float__(self):
            raise AssertionError("waited for")

        __le__ = __ge__ = __bool__ = __float__

    loop = Loop(1.0)
    loop.optimizer.param_groups[0]["lr"] = Elsewhere()
    for step in range(100):
        loop.step(usual(step))
    assert loop.hearing.steps == 100
    assert loop.alarms.rates == []


def test_a_step_before_the_next_look_is_a_turn():
    loop = Loop(1.0)
    loop.hearing.wait(10)
    for step in range(8):
        loop.step(usual(step))
    turns = loop.turns
    loop.step(usual(0))
    assert loop.turns == turns + 1


def test_what_hearing_takes_is_paid_for():
    loop = Loop(1.0)
    for step in range(100):
        loop.step(usual(step))
    assert loop.buckets.spent >= 1e-5 * (len(loop.worth) + 2 * len(loop.alarms.losses))


def test_calls_that_note_no_loss_are_paid_for_too():
    """Each step is two calls, whatever comes of them; the note of a rate is their measure."""
    tick, steps = 1e-5, 2000
    loop = Loop(1e-5, tick=tick)
    for step in range(steps):
        loop.step(usual(step))
    loop.hear()
    assert loop.hearing.apart == FEWEST
    notes = tick * len(loop.alarms.losses)
    assert loop.buckets.spent == pytest.approx(tick * (CALLS * steps + len(loop.worth)) + notes)


def test_losses_that_were_heard_are_read_at_the_next_look():
    loop = Loop(1.0)
    loop.step(torch.tensor(2.0, requires_grad=True))
    loop.step(3.0)
    loop.hear()
    found = list(loop.read.read(loop.read.local()))
    assert [c.values for c in found] == [[3.0], [3.0]]


def test_losses_are_those_of_their_steps_in_the_means_of_blocks():
    loop = Loop(1.0)
    for step in range(1, 21):
        loop.step(float(step))
    loop.hear()
    found = {step: reading.estimate.value for step, reading in loop.means.take()}
    assert found == {step: float(step) for step in range(1, 20)}


@pytest.mark.parametrize("tensors", [False, True])
def test_losses_without_steps_are_told_once(caplog, tensors):
    loop = Loop(1.0)
    loss = torch.tensor(1.0) if tensors else 1.0
    for _ in range(40):
        loop.step(loss)
    for _ in range(1000):  # another optimizer steps
        if loop.hearing.loss(loss):
            loop.hear()
    said = [r.getMessage() for r in caplog.records]
    assert len(said) == 1
    assert "since step 40 and no step of the optimizer" in said[0]


def test_accumulation_over_many_batches_is_no_such_thing(caplog):
    loop = Loop(1.0)
    for _ in range(4):
        for _ in range(200):
            if loop.hearing.loss(torch.tensor(1.0)):
                loop.hear()
        loop.step()
    assert not caplog.records
