"""The second correction of a product of linear layers."""

from dataclasses import replace

import pytest
import torch
from torch import nn

from sigmascope.networks import mlp
from sigmascope.probes import Stack, Subject
from sigmascope.theory import Verdict, jacot2023

THEOREM = jacot2023.ProductCorrection


def linear(seed, *, depth=3, width=4):
    g = torch.Generator().manual_seed(seed)
    draw = lambda *s: torch.randn(*s, generator=g, dtype=torch.float64)
    weights = tuple(draw(width, width) for _ in range(depth))
    return Stack(tuple("abcdefgh"[:depth]), weights, (draw(width),) * depth, 1.0), draw(1, width)


@pytest.mark.usefixtures("as_users_see_it")
def test_it_holds_on_a_thousand_networks():
    for seed in range(1000):
        stack, rows = linear(seed, depth=2 + seed % 4, width=1 + seed % 5)
        (found,) = THEOREM.on(stack, rows)
        assert found.check().verdict in (Verdict.HOLDS, Verdict.CONSISTENT)


def test_commuting_layers_attain_it():
    powers = tuple(torch.diag(torch.tensor([3.0, 0.5]).double() ** p) for p in (1, 2, 0.3))
    stack = Stack(("a", "b", "c"), powers, (torch.zeros(2).double(),) * 3, 1.0, False)
    (found,) = THEOREM.on(stack, torch.ones(1, 2).double())
    assert found.measured().value == pytest.approx(found.limit().value)


def test_it_has_teeth():
    caught = 0
    for seed in range(50):
        stack, rows = linear(seed)
        (found,) = THEOREM.on(stack, rows)
        point = replace(found.point)
        point.__dict__["jacobian"] = 30 * found.point.jacobian  # not that of these weights
        caught += THEOREM("network", point).check().verdict == Verdict.VIOLATED
    assert caught > 20


def test_it_declines_where_ranks_differ():
    stack, rows = linear(0)
    thin = stack.weights[1].clone()
    thin[0] = thin[1]
    (found,) = THEOREM.on(replace(stack, weights=(stack.weights[0], thin, stack.weights[2])), rows)
    assert found.check().verdict == Verdict.INAPPLICABLE


def test_it_is_silent_on_networks_that_bend():
    net = mlp(inputs=4, outputs=2, depth=2, width=5, generator=torch.Generator().manual_seed(0))
    assert not list(THEOREM.facts(Subject(net, torch.randn(3, 4))))
    (declined,) = THEOREM.facts(
        Subject(nn.Sequential(nn.Linear(3, 3), nn.LayerNorm(3), nn.Linear(3, 2)), torch.randn(3, 3))
    )
    assert declined.check().verdict == Verdict.INAPPLICABLE
