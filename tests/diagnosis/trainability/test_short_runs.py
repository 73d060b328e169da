"""A probe tells networks that learn from those that do not, and touches nothing."""

import math

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from sigmascope import sources
from sigmascope.core.guard import Budget, OverBudget, Refusal
from sigmascope.diagnosis.trainability import Probing, probe
from sigmascope.diagnosis.trainability.short_runs import ROUNDS
from sigmascope.models import networks
from tests.clocks import Ticking

LONGER, PASSES = 16, 42


@pytest.fixture(scope="module")
def digits():
    return sources.open_data("digits", samples=128)


def mlp(depth, **options):
    g = torch.Generator().manual_seed(0)
    return networks.mlp(inputs=64, outputs=10, depth=depth, width=32, generator=g, **options)


def probed(model, data, **options):
    return probe(model, data.inputs, targets=data.targets, loss=F.cross_entropy, **options)


@pytest.mark.parametrize("optimizer", ["sgd", "adam"])
@pytest.mark.slow
def test_a_shallow_network_comes_further_than_a_dead_one(digits, optimizer):
    good, bad = (probed(mlp(d), digits, optimizer=optimizer) for d in (2, 32))
    assert good.curves[0].progress > -0.5 > -4 > bad.curves[0].progress
    assert good.features()["reached"] > 0 > -3 > bad.features()["reached"]
    assert good.constant == pytest.approx(math.log(10), abs=0.02)


@pytest.fixture
def counted():
    """A network, and how many samples passed it each time."""
    sizes = []

    class Counted(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = mlp(2)

        def forward(self, x):
            sizes.append(len(x))
            return self.inner(x)

    return Counted(), sizes


def test_it_costs_what_it_says(digits, counted):
    model, sizes = counted
    found = probed(model, digits)
    assert PASSES == 42
    # eight steps of 16 samples are one pass of 128; one look more says whether they may be split
    assert sizes == [16] * (8 * PASSES + 1)
    assert sum(len(c.losses) for c in found.curves) == 42
    assert [len(c.steps) for c in found.curves] == [8 * len(c.losses) for c in found.curves]


@pytest.mark.parametrize("decides", [True, False])
def test_none_goes_on_for_longer_where_what_was_seen_decides(digits, decides):
    asked = []
    found = probed(mlp(2), digits, rates=(1e-5, 3e-5, 1e-4, 2e-4), enough=lambda seen: (
        asked.append(seen) or decides))  # fmt: skip
    assert sum(len(c.losses) for c in found.curves) == PASSES + (0 if decides else 2 * LONGER)
    assert [sum(len(c.losses) for c in seen.curves) for seen in asked] == [PASSES]


def test_samples_that_belong_together_take_whole_steps(digits, counted):
    model, sizes = counted
    total = lambda out, y: F.cross_entropy(out, y, reduction="sum")
    found = probe(model, digits.inputs, targets=digits.targets, loss=total)
    assert sizes == [16] + [128] * 42
    assert sum(len(c.losses) for c in found.curves) == 42


def test_rates_may_be_said(digits):
    found = probed(mlp(2), digits, rates=(1e-3, 1e-2))
    assert sorted(c.rate for c in found.curves) == [1e-3, 1e-2]
    assert sum(len(c.losses) for c in found.curves) == 2 * 5 + 2 * 5 + 12
    for rates in ((), (0.0,), (math.inf,)):
        with pytest.raises(Refusal, match="`rates` must be one or more finite numbers above 0"):
            probed(mlp(2), digits, rates=rates)


def test_where_nothing_is_decided_two_rates_go_on(digits):
    """The one with the most promise, and of the others that with the least loss."""
    found = probed(mlp(2), digits, rates=(1e-7, 1e-6, 1e-5))
    assert found.reached < 0.5
    passes = {c.rate: len(c.losses) for c in found.curves}
    assert sum(passes.values()) == 3 * 5 + 2 * 5 + 12 + 2 * LONGER
    assert sorted(passes.values())[0] == 5
    assert passes[1e-5] >= 5 + LONGER


def test_a_probe_can_go_on(digits):
    probing = Probing(mlp(2), digits.inputs, targets=digits.targets, loss=F.cross_entropy)
    for best, rounds in ROUNDS:
        probing.go_on(best, rounds)
    seen = probing.seen()
    assert seen == probed(mlp(2), digits)
    probing.keep(max(probing.runs, key=lambda r: r.curve().progress).rate)
    probing.go_on(1, 3)
    assert probing.passes == PASSES + 3
    assert len(probing.seen().curves) == 1
    assert probing.seen().curves[0].losses[: sum(r for _, r in ROUNDS)] == seen.curves[0].losses
    assert probing.alive


def test_a_budget_stops_it_and_what_it_has_seen_stays(digits):
    clock = Ticking()
    budget = Budget(400.0, clock=clock)  # of which a step takes one, if a loss is computed in it
    loss = clock.each(F.cross_entropy)
    given = {"targets": digits.targets, "loss": loss, "budget": budget}
    whole = Probing(mlp(2), digits.inputs, **given)
    whole.go_on(4, 5)
    assert (whole.passes, budget.left < 400) == (20, True)
    short = Probing(mlp(2), digits.inputs, **{**given, "budget": Budget(100.0, clock=clock)})
    with pytest.raises(OverBudget, match=r"about 5.6min, and 4 were made in a budget of 1.67min"):
        short.go_on(4, 5)
    assert (short.passes, short.pace.made) == (0, 4)
    with pytest.raises(OverBudget, match="The probability of fitting needs 336 training steps"):
        probed(mlp(2), digits, budget=1e-6)


def test_right_answers_are_told_of_classes_alone(digits):
    assert probed(mlp(2), digits).curves[0].right is not None
    wanted = F.one_hot(digits.targets, 10).float()
    values = probe(mlp(2), digits.inputs, targets=wanted, loss=F.mse_loss)
    assert values.curves[0].right is None


def test_rates_that_overflow_are_left(digits):
    model = mlp(3)
    for p in model.parameters():
        p.data.mul_(300)
    found = probed(model, digits, optimizer="sgd")
    assert not all(c.finite for c in found.curves)
    assert [c.progress for c in found.curves] == sorted(
        (c.progress for c in found.curves), reverse=True
    )


def test_the_model_is_left_as_found(digits):
    model = mlp(2, norm="batch").eval()
    model.readout.bias.grad = torch.ones(10)
    before = {k: v.clone() for k, v in model.state_dict().items()}
    state = torch.random.get_rng_state()
    probed(model, digits)
    assert all(torch.equal(v, before[k]) for k, v in model.state_dict().items())
    assert torch.equal(state, torch.random.get_rng_state())
    assert not model.training
    assert torch.equal(model.readout.bias.grad, torch.ones(10))


def test_it_refuses_what_it_cannot_do(digits):
    with pytest.raises(Refusal, match="got none that require gradients"):
        probed(mlp(2).requires_grad_(False), digits)
    many = sources.open_data("digits", samples=300)
    with pytest.raises(Refusal, match="up to 256 samples, got 300"):
        probed(mlp(2), many)


@pytest.mark.parametrize("calls", [1, 2, 9, 40])
def test_whatever_fails_in_training_is_told_in_words(calls):
    class Fails(nn.Linear):
        seen = 0

        def forward(self, x):
            Fails.seen += torch.is_grad_enabled() and self.training
            if Fails.seen == calls:
                raise LookupError("no more today")
            return super().forward(x)

    x = torch.randn(32, 4, generator=torch.Generator().manual_seed(0))
    with pytest.raises(Refusal, match="LookupError: no more today"):
        probe(Fails(4, 2), x, targets=x[:, :2], loss=nn.functional.mse_loss)
