"""Where gradients cancel, rates are told from rounding."""

import math
from dataclasses import replace

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from sigmascope.probes import Subject
from sigmascope.probes.trial_gradients import trial_gradients
from sigmascope.records import Verdict
from sigmascope.theory import le2022
from sigmascope.theory.le2022.conservation import rates
from tests.theory.le2022.linear_networks import dense


def regressed(dtype, steps):
    """A linear network that has reached its stationary point, with its data."""
    g = torch.Generator().manual_seed(0)
    x = torch.randn(64, 5, generator=g).to(dtype)
    y = x @ torch.randn(5, 3, generator=g).to(dtype) + 0.1 * torch.randn(64, 3, generator=g).to(
        dtype
    )
    net = dense(5, 7, 3).to(dtype)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.05)
    for _ in range(steps):
        optimizer.zero_grad()
        F.mse_loss(net(x), y).backward()
        optimizer.step()
    return net, x, y


def interpolated(dtype):
    """A network with BatchNorm that fits its labels until the loss is rounding."""
    g = torch.Generator().manual_seed(0)
    x, y = torch.randn(32, 5, generator=g).to(dtype), torch.randint(3, (32,), generator=g)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        net = nn.Sequential(nn.Linear(5, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Linear(16, 3))
    net = net.to(dtype)
    optimizer = torch.optim.Adam(net.parameters(), lr=0.02)
    for _ in range(300):
        optimizer.zero_grad()
        F.cross_entropy(net(x), y).backward()
        optimizer.step()
    with torch.no_grad():
        net[3].weight *= 8
        net[3].bias *= 8
    return net, x, y


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_a_correct_model_at_a_stationary_point_is_not_broken(dtype):
    net, x, y = regressed(dtype, 3000)
    facts = le2022.conservation.BalanceRate.facts(Subject(net, x, y, F.mse_loss))
    assert {t.check().verdict for t in facts} == {Verdict.HOLDS}
    net, x, y = interpolated(dtype)
    found = le2022.conservation.conserved(net, x, targets=y, loss=F.cross_entropy)
    assert not found.broken
    assert {i.kind for i in found.invariants} >= {"norm", "neuron", "column sum"}


def test_a_wrong_backward_is_told_at_a_stationary_point_too():
    net, x, y = regressed(torch.float32, 1500)
    wrong = nn.Sequential(net[0], Doubled(), net[1])
    found = le2022.conservation.conserved(wrong, x, targets=y, loss=F.mse_loss)
    assert found.broken
    assert not found.invariants


class Doubled(nn.Module):
    """The identity, half of it detached from the gradient."""

    def forward(self, x):
        return x / 2 + x.detach() / 2


def test_a_gradient_of_rounding_alone_tells_nothing():
    """A softmax so sure of itself that its derivative is a rounding error."""
    (theorem,) = le2022.conservation.BalanceRate.facts(
        Subject(dense(4, 6, 3), torch.ones(2, 4).double())
    )
    noisy = replace(theorem.invariant, rate=0.3, noise=math.inf)
    found = replace(theorem, invariant=noisy).check()
    assert found.verdict == Verdict.CONSISTENT
    assert [a.met for a in found.assumptions] == [True, True, None]


def test_losses_of_one_precision_and_of_any_are_weighted_by_sample():
    x = torch.randn(6, 4, generator=torch.Generator().manual_seed(0))
    model, y = dense(4, 6, 3).float(), torch.ones(6, 3)

    def single(out, targets):
        if out.dtype != torch.float32:
            raise TypeError("float32 only")
        return F.mse_loss(out, targets)

    weighted = [
        dict(trial_gradients(model, x, targets=y, loss=loss, pull="reweighted"))
        for loss in (F.mse_loss, single)
    ]
    for name, g in weighted[0].items():
        assert torch.allclose(g, weighted[1][name], rtol=1e-4, atol=1e-6)
    plain = dict(trial_gradients(model, x, targets=y, loss=F.mse_loss))
    moved = dict(trial_gradients(model, x, targets=y, loss=F.mse_loss, nudge=1e-6))
    for name, g in plain.items():
        assert 0 < float((g - moved[name]).norm()) < 1e-3 * float(g.norm())


@pytest.mark.parametrize("nudged", [0, 1, 3])
def test_rounding_is_seen_by_as_many_changes_as_were_asked_for_each_larger(monkeypatch, nudged):
    seen = []

    def watched(*given, nudge=0.0, **named):
        seen.append(nudge)
        return trial_gradients(*given, nudge=nudge, **named)

    monkeypatch.setattr(rates, "trial_gradients", watched)
    net, x, y = regressed(torch.float64, 1)
    made = rates.TrialGradient.of(Subject(net, x, y, F.mse_loss), "loss", nudged=nudged)
    own = sorted(n for n in seen if n)
    assert own == [k * rates.NUDGES * 2.0**-52 for k in range(1, nudged + 1)]
    assert len(made.others) == nudged
    assert (made.contributions is None) == (nudged == 0)
