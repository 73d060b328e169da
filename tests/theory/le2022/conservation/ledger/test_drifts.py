"""How far a balance may drift: by rounding, and by the fall of the loss."""

import math

import pytest
import torch
from torch.nn import functional as F

from sigmascope.records import Verdict
from sigmascope.theory import le2022
from sigmascope.theory.le2022.conservation.ledger import rounding
from tests.theory.le2022.conservation.sgd_runs import data, network
from tests.theory.le2022.conservation.two_layers import balances, dense


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


def test_end_points_accept_what_was_conserved_and_reject_what_was_not():
    x, y = data(0, n=40)
    net = network(7)
    found = le2022.conservation.invariants(net, x)
    before = {n: p.detach().clone() for n, p in net.named_parameters()}
    start = F.cross_entropy(net(x), y)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.01)
    for _ in range(100):
        optimizer.zero_grad()
        F.cross_entropy(net(x), y).backward()
        optimizer.step()
    drop = float((start - F.cross_entropy(net(x), y)).detach())
    after = dict(net.named_parameters())
    drifts = list(
        le2022.conservation.endpoint_drifts(
            found, before, after, learning_rate=0.01, loss_drop=drop, steps=100
        )
    )
    for d in drifts:
        change = d.now - d.start
        own = change.diagonal() if change.ndim == 2 else change
        assert float(own.abs().max()) <= d.allowed
        whole = (d.invariant.matrix(after) - d.invariant.matrix(before)).abs()
        assert float(whole.max()) > d.allowed  # units of different patterns are not balanced
    with torch.no_grad():
        net[0].weight *= 1.3
    broken = le2022.conservation.endpoint_drifts(
        found, before, after, learning_rate=0.01, loss_drop=drop
    )
    assert next(broken).verdict == Verdict.VIOLATED
    unknown = le2022.conservation.endpoint_drifts(found, before, after)
    assert {d.verdict for d in unknown} == {Verdict.INAPPLICABLE}


def test_end_points_refuse_other_checkpoints():
    net = network(0)
    found = le2022.conservation.invariants(net, data(0)[0])
    good = dict(net.named_parameters())
    with pytest.raises(ValueError, match=r"must hold the parameter `2\.weight`"):
        list(le2022.conservation.endpoint_drifts(found, good, {"0.weight": good["0.weight"]}))
    with pytest.raises(ValueError, match="one shape in both"):
        list(
            le2022.conservation.endpoint_drifts(
                found, good, {**good, "2.weight": good["2.weight"][:2]}
            )
        )
    with pytest.raises(ValueError, match="momentum"):
        list(le2022.conservation.endpoint_drifts(found, good, good, momentum=1.0))
