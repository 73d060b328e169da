"""Training at one rate is what a plain loop does, and can be left and gone on with."""

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from sigmascope.diagnosis.trainability.copies import Minibatches, Pace, RateRun, optimizer_of
from sigmascope.gate import Budget

G = torch.Generator().manual_seed(0)
X, Y = torch.randn(16, 6, generator=G), torch.randint(3, (16,), generator=G)
DATA = Minibatches(X, Y, 16, split=False)


def network():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 3))


def going(rate, model):
    run = RateRun("adam", rate, lambda output: None)
    run.begin(model, ())
    return run, Pace(Budget.of(None), "It", 9)


def test_it_is_what_a_plain_loop_does():
    model = network()
    run, pace = going(0.01, model)
    assert run.go_on(DATA, F.cross_entropy, 2, pace) == 2
    assert run.go_on(DATA, F.cross_entropy, 3, pace) == 3  # it goes on where it stopped
    by = optimizer_of([*model.parameters()], "adam", 0.01)
    losses = []
    for _ in range(5):
        by.zero_grad()
        value = F.cross_entropy(model(X), Y)
        losses.append(value.item())
        value.backward()
        by.step()
    assert run.steps == losses
    assert (len(run.curve().losses), pace.made) == (5, 5)


def test_a_loss_that_is_lost_ends_it():
    model = network()
    model[0].weight.data.fill_(float("inf"))
    run, pace = going(0.01, model)
    assert run.go_on(DATA, F.cross_entropy, 5, pace) == 1
    assert not run.finite
    assert run.curve().losses == ()


@pytest.mark.parametrize(("name", "kind"), [("adam", torch.optim.Adam), ("sgd", torch.optim.SGD)])
def test_plain_training_is_one_of_two(name, kind):
    by = optimizer_of([*network().parameters()], name, 0.1)
    assert type(by) is kind
    assert by.param_groups[0].get("momentum", 0.9) == 0.9
