"""Glances at the inputs between looks."""

import math

import pytest
import torch
from torch import nn

from sigmascope.watching import watch
from sigmascope.watching.alarms import Alarms
from sigmascope.watching.budget import Buckets
from sigmascope.watching.probes import Losses
from sigmascope.watching.steps import EVERY, KNOWN, Inputs
from tests.watching.made import Shelf, Ticks, stack, trained


class Loop:
    """A model that reads batches, and who is asked for looks."""

    def __init__(self, model=None, **of):
        self.model = nn.Sequential(nn.Linear(4, 3), nn.Linear(3, 2)) if model is None else model
        self.inputs = Inputs(self.model, Alarms(), budget=0.02, clock=Ticks(1e-6), **of)
        self.buckets, self.asked, self.step, self.granted = Buckets([Losses()], 0.02), [], 0, True
        self.glances = 0

    def hurry(self, step, probe):
        self.asked.append(step)
        return self.granted

    def run(self, steps, scale=1.0):
        for _ in range(steps):
            self.buckets.earn(1.0, 1)
            if self.inputs._handles:
                self.glances += 1
            self.model(torch.full((8, 4), scale))
            self.step += 1
            self.inputs.turn(self.step, self.buckets, self.hurry)
        return self


@pytest.mark.parametrize("factor", [10.0, 0.1])
def test_a_look_is_wanted_once_and_soon_where_the_scale_of_inputs_has_changed(factor):
    loop = Loop().run(EVERY * (KNOWN + 3))
    at = loop.step
    loop.run(200, factor)
    assert len(loop.asked) == 1
    assert loop.asked[0] <= at + EVERY + 2


def test_what_changes_by_less_is_usual():
    loop = Loop().run(EVERY * (KNOWN + 3))
    for k in range(20):
        loop.run(EVERY, 2.0 if k % 2 else 1.0)
    assert loop.asked == []


def test_it_is_asked_for_again_until_it_is_granted():
    loop = Loop().run(EVERY * (KNOWN + 3))
    loop.granted = False
    loop.run(EVERY + 20, 10.0)
    assert len(loop.asked) > 3
    loop.granted = True
    count = len(loop.run(3, 10.0).asked)
    assert len(loop.run(100, 10.0).asked) == count


def test_glances_are_some_steps_apart_and_paid_for():
    loop = Loop().run(400)
    assert 400 / (EVERY + 4) <= loop.glances <= 400 / EVERY
    assert loop.buckets.spent > 0
    assert not loop.model[0]._forward_hooks or loop.inputs._handles


def test_what_is_not_a_number_is_left_to_others():
    loop = Loop().run(EVERY * (KNOWN + 3))
    loop.run(100, math.nan)
    assert loop.asked == []


def test_tokens_modules_that_run_compiled_and_no_model_are_left_alone():
    tokens = Loop(nn.Sequential(nn.Embedding(9, 3), nn.Linear(3, 2)))
    tokens.model.forward = lambda x: nn.Sequential.forward(tokens.model, x.long())
    assert math.isinf(tokens.run(100).inputs.next)
    compiled = nn.Linear(4, 2)
    compiled.compile(backend="eager")
    assert math.isinf(Inputs(compiled, Alarms(), budget=0.02, clock=Ticks()).next)
    assert math.isinf(Inputs(None, Alarms(), budget=0.02, clock=Ticks()).next)


def test_changed_inputs_are_an_alarm_within_twenty_steps_though_looks_are_far_apart():
    torch.manual_seed(0)
    model = stack(5, 8, 8, 3)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.0)
    x, y = torch.randn(64, 5), torch.randn(64, 3)
    clock, shelf = Ticks(1e-6), Shelf()
    optimizer.register_step_pre_hook(lambda *_: clock.wait(2e-3))
    with watch(model, optimizer, clock=clock, sinks=[shelf]) as watching:
        trained(model, x, y, optimizer, 1000, watching)
        trained(model, 100 * x, y, optimizer, 20, watching)
        assert "inputs-changed" in [f.name for f in watching.alarms]
