"""Losses and rates are heard, some at a time, all of them."""

import torch

from sigmascope.watching.alarms import Alarms
from sigmascope.watching.hearing import MOST, Hearing
from sigmascope.watching.probes import Losses
from sigmascope.watching.purses import Purses
from tests.watching.made import Ticks


class Heard(Alarms):
    def __init__(self):
        super().__init__()
        self.losses, self.rates = [], []

    def hear(self, loss):
        self.losses.append(loss)
        return super().hear(loss)

    def hear_rate(self, rate):
        self.rates.append(rate)
        return super().hear_rate(rate)


def trained(steps, seconds, *, tick=1e-5, losses=True):
    """Hearing of some steps that take so long each; and how often it heard."""
    alarms, read, purses = Heard(), Losses(), Purses([Losses()], 0.02)
    hearing, times = Hearing(alarms, read, 0.02, Ticks(tick)), 0
    for step in range(steps):
        purses.earn(seconds, 1)
        due = hearing.rate(0.1)
        if losses:
            due = hearing.loss(torch.tensor(float(step), requires_grad=True))
        if due:
            times += 1
            hearing.hear(purses)
    hearing.hear(purses)
    return hearing, alarms, purses, times


def test_every_loss_and_rate_is_heard_in_order_however_short_steps_are():
    for seconds in (1.0, 1e-3, 1e-6):
        _, alarms, _, _ = trained(200, seconds)
        assert alarms.losses == [float(i) for i in range(200)]
        assert alarms.rates == [0.1] * 200


def test_losses_of_long_steps_are_heard_one_by_one():
    hearing, _, _, times = trained(100, 1.0)
    assert hearing.every == 1
    assert times == 100


def test_losses_of_short_steps_are_heard_together():
    hearing, _, _, times = trained(400, 1e-5)
    assert hearing.every == MOST
    assert times < 30


def test_what_hearing_takes_is_paid_for():
    _, _, purses, times = trained(100, 1.0)
    assert purses.spent >= 1e-5 * times


def test_rates_are_heard_where_no_loss_is_handed_in():
    _, alarms, _, times = trained(50, 1.0, losses=False)
    assert alarms.rates == [0.1] * 50
    assert times >= 24


def test_a_loss_that_rises_makes_a_look_worth_its_price():
    alarms, purses = Alarms(), Purses([Losses()], 0.02)
    hearing = Hearing(alarms, Losses(), 0.02, Ticks())
    worth = []
    for step in range(60):
        if hearing.loss(1.0 if step < 50 else 100.0):
            worth.append(hearing.hear(purses))
    assert not any(worth[:50])
    assert any(worth[50:])


def test_losses_that_were_heard_are_read_at_the_next_look():
    losses = Losses()
    hearing = Hearing(Alarms(), losses, 0.02, Ticks())
    hearing.loss(torch.tensor(2.0, requires_grad=True))
    hearing.loss(3.0)
    hearing.hear(Purses([losses], 0.02))
    found = list(losses.read(losses.local()))
    assert [c.values for c in found] == [[3.0], [3.0]]
