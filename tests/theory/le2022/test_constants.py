"""Rates, allowances and identities with numbers by hand."""

import itertools
import math
from dataclasses import replace

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from sigmascope.records import Estimate, Verdict
from sigmascope.theory import le2022
from sigmascope.theory.le2022.conservation.drifts import rounding
from sigmascope.theory.le2022.conservation.words import formula, reason
from sigmascope.theory.le2022.ranks import Layer, RankOneBound


def dense(*widths, act=nn.Identity, seed=0, bias=True):
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(seed)
        parts = [
            p for a, b in itertools.pairwise(widths) for p in (nn.Linear(a, b, bias=bias), act())
        ]
        return nn.Sequential(*parts[:-1]).double()


X = torch.randn(12, 4, generator=torch.Generator().manual_seed(1)).double()
Y = torch.arange(12) % 3


def balances(net, x=X):
    return le2022.conservation.invariants(net, x)


@pytest.mark.parametrize("act", [nn.Identity, nn.ReLU])
def test_the_rate_is_the_derivative_along_the_flow(act):
    """`Q` is quadratic: its central difference along any direction is exact."""
    net = dense(4, 5, 3, act=act)
    weights = {n: p.detach() for n, p in net.named_parameters()}
    g = torch.Generator().manual_seed(2)
    pull = {n: torch.randn(p.shape, generator=g, dtype=torch.float64) for n, p in weights.items()}
    for found in balances(net):
        ends = [
            found.value({n: p - side * 0.1 * pull[n] for n, p in weights.items()})
            for side in (1, -1)
        ]
        assert torch.allclose(found.change(weights, pull), (ends[0] - ends[1]) / 0.2)


def test_the_rate_of_a_sum_is_the_sum_of_the_gradient():
    net = dense(4, 5, 3)
    found = le2022.conservation.invariants(net, X, targets=Y, loss=F.cross_entropy)
    (sums, *_) = [i for i in found if i.kind == "column sum"]
    tensor = sums.tensors[0]
    weights = dict(net.named_parameters())
    pull = {n: torch.ones_like(p) for n, p in weights.items()}
    assert torch.equal(sums.change(weights, pull), -pull[tensor].sum(sums.what.axes))


def test_what_is_conserved_is_two_squares_and_their_difference():
    """In-weights (1, 2) and a bias of 2, out-weights (1, 3): 1 + 4 + 4 - 1 - 9 = -1."""
    net = nn.Sequential(nn.Linear(2, 1), nn.ReLU(), nn.Linear(1, 2, bias=False)).double()
    with torch.no_grad():
        net[0].weight.copy_(torch.tensor([[1.0, 2.0]]))
        net[0].bias.fill_(2.0)
        net[2].weight.copy_(torch.tensor([[1.0], [3.0]]))
    (found,) = le2022.conservation.invariants(net, torch.ones(2, 2).double())
    assert abs(found.value(dict(net.named_parameters())).item()) == pytest.approx(1)
    assert le2022.conservation.neuron_balance(
        net[0].weight, net[2].weight, net[0].bias
    ).tolist() == [-1]
    assert le2022.conservation.gram_balance(net[0].weight, net[2].weight, net[0].bias).tolist() == [
        [1]
    ]


@pytest.mark.parametrize("options", [
    {"momentum": 0.8, "dampening": 0.3, "weight_decay": 0.05},
    {"momentum": 0.8, "weight_decay": 0.05},
    {"momentum": 0.8, "weight_decay": 0.05, "nesterov": True},
    {"weight_decay": 0.05},
])  # fmt: skip
def test_dampened_and_decayed_steps_are_exact_from_the_first(options):
    net = dense(4, 5, 3)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1, **options)
    with le2022.conservation.Ledger(net, balances(net)).watching(optimizer) as ledger:
        for _ in range(6):
            optimizer.zero_grad()
            F.cross_entropy(net(X), Y).backward()
            optimizer.step()
    for drift in ledger.drifts():
        assert float((drift.now - drift.start - drift.expected).abs().max()) < 1e-13
        assert drift.drift > 1e-4
        assert (drift.suspects, drift.since) == ((), None)


def test_the_first_look_that_found_a_balance_broken_is_told():
    """Weights are looked at every 64 steps; what broke at step 70 is seen at 128, and stays so."""
    net = dense(4, 5, 3)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.01)
    with le2022.conservation.Ledger(net, balances(net)).watching(optimizer) as ledger:
        for step in range(200):
            optimizer.zero_grad()
            F.cross_entropy(net(X), Y).backward()
            optimizer.step()
            if step == 69:
                with torch.no_grad():
                    net[0].weight.mul_(1.1)
    (drift,) = ledger.drifts()
    assert (drift.verdict, drift.since) == (Verdict.VIOLATED, 128)


def test_what_rounding_may_do_is_a_random_walk():
    """`16 u √steps max ‖W‖²`."""
    net = dense(4, 5, 3, bias=False)
    (found,) = balances(net)
    size = max(float(p.detach().square().sum()) for p in net.parameters())
    weights = dict(net.named_parameters())
    for steps in (1, 100):
        allowed = 16 * 2.0**-53 * math.sqrt(steps) * size
        assert rounding(found, weights, steps) == pytest.approx(allowed)
    assert rounding(found, weights, 0) == rounding(found, weights, 1)
    single = {n: p.float() for n, p in weights.items()}
    assert rounding(found, single, 1) == pytest.approx(16 * 2.0**-24 * size, rel=1e-6)


def test_what_the_fall_of_the_loss_allows():
    """`2 η (L(0) - L(T)) (1 + μ) / (1 - μ)²` on top of rounding: 2 · 0.1 · 3 · 6 for μ = 1/2."""
    net = dense(4, 5, 3, bias=False)
    found, weights = balances(net), dict(net.named_parameters())

    def allowed(**options):
        return next(le2022.conservation.endpoint_drifts(found, weights, weights, **options)).allowed

    still = allowed(learning_rate=0.0, loss_drop=0.0)
    assert still == rounding(found[0], weights, 1)
    assert allowed(learning_rate=0.0, loss_drop=0.0, steps=4) == pytest.approx(2 * still)
    assert allowed(learning_rate=0.1, loss_drop=3.0) == pytest.approx(0.6)
    assert allowed(learning_rate=0.1, loss_drop=3.0, momentum=0.5) == pytest.approx(3.6)
    for wrong in ({"momentum": -0.1}, {"learning_rate": -0.1}, {"loss_drop": -0.1}):
        with pytest.raises(ValueError, match="must be at least 0"):
            allowed(**({"learning_rate": 0.1, "loss_drop": 1.0} | wrong))


def test_formulas_show_every_sign():
    (found,) = balances(dense(4, 5, 3))
    assert formula(found).startswith("W₂ᵀW₂ - W₁W₁ᵀ - bbᵀ with ")
    parts = tuple(replace(p, factor=-p.factor) for p in found.what.parts)
    turned = replace(found, what=replace(found.what, parts=parts))
    assert formula(turned).startswith("-W₂ᵀW₂ + W₁W₁ᵀ + bbᵀ with ")


def bound(frobenius, spectral, S=1.0, D=1.0):
    return RankOneBound(
        "layer", *map(Estimate.exactly, (frobenius, spectral)), S, Estimate.exactly(D)
    )


def test_how_near_to_rank_one_a_layer_is():
    found = bound(10.0, 8.0, S=1.0, D=2.0)
    assert found.excess.value == pytest.approx(2)
    assert found.ratio == pytest.approx(0.8)
    assert found.least == pytest.approx(0.8)  # 1 - 2/10
    assert bound(10.0, 8.0, S=2.0, D=2.0).least == pytest.approx(0.4)
    assert found.size_needed(0.9) == pytest.approx(20)  # 2 / (1 - 0.9)
    assert found.size_needed(1.0) == math.inf
    nothing = bound(0.0, 0.0)
    assert (nothing.ratio, nothing.least) == (1.0, -math.inf)


def test_the_constant_of_a_linear_tail_by_hand():
    """`D = ‖W‖² - ‖w‖² + λ₁(w wᵀ - W Wᵀ)`: W = diag(2, 1) and w = (3, 0) give 5 - 9 + 5 = 1."""
    W, w = torch.diag(torch.tensor([2.0, 1.0])).double(), torch.tensor([[3.0, 0.0]]).double()
    (found,) = le2022.rank_one_bound([Layer("W", W, W)], w)
    assert found.D.value == pytest.approx(1)
    assert (found.S, found.excess.value) == (1, pytest.approx(1))
    assert found.frobenius.value == pytest.approx(5)
    # one layer further down: its own difference of Gram matrices, and that of those above
    V = torch.diag(torch.tensor([1.0, 3.0])).double()
    first, second = le2022.rank_one_bound([Layer("V", V, V), Layer("W", W, W)], w)
    assert second.D.value == pytest.approx(1)
    # ‖V‖² - ‖w‖² + 5 + λ₁(WᵀW - VVᵀ) = 10 - 9 + 5 + 3
    assert first.D.value == pytest.approx(9)


def test_reasons_name_what_stands_between():
    (linear,) = balances(dense(4, 5, 3))
    assert (
        reason(linear) == "only linear maps between: any mixing of units passes to the next weights"
    )
    bent = [reason(i) for i in balances(dense(4, 5, 3, act=nn.ReLU))]
    assert all(said.startswith("an activation with two slopes between: ") for said in bent)
    normed = nn.Sequential(nn.Linear(4, 5), nn.BatchNorm1d(5), nn.ReLU(), nn.Linear(5, 3)).double()
    said = {i.kind: reason(i) for i in balances(normed)}
    assert said["norm"] == "a common factor is divided out again; up to the eps of a normaliser"
    assert said["neuron"] == (
        "an activation with two slopes and a gain of each unit between: a factor of each unit "
        "passes to the next weights"
    )
    sums = le2022.conservation.invariants(dense(4, 3), X, targets=Y, loss=F.cross_entropy)
    assert {reason(i) for i in sums} == {
        "what is added along these axes is subtracted again by a softmax or a mean"
    }
