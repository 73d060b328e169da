"""The second correction of a product of linear layers."""

import math
from dataclasses import replace

import pytest
import torch
from torch import nn

from sigmascope.networks import mlp
from sigmascope.probes import Subject
from sigmascope.probes.structure import Stack
from sigmascope.records import Verdict
from sigmascope.theory import jacot2023
from sigmascope.theory.jacot2023 import ProductCorrection

THEOREM = jacot2023.ProductCorrection


def linear(seed, *, depth=3, width=4):
    g = torch.Generator().manual_seed(seed)
    draw = lambda *s: torch.randn(*s, generator=g, dtype=torch.float64)
    weights = tuple(draw(width, width) for _ in range(depth))
    return Stack(tuple("abcdefgh"[:depth]), weights, (draw(width),) * depth, 1.0), draw(1, width)


@pytest.mark.usefixtures("as_users_see_it")
def test_it_holds_on_random_networks():
    for seed in range(200):
        stack, rows = linear(seed, depth=2 + seed % 4, width=1 + seed % 5)
        (found,) = THEOREM.on(stack, rows)
        assert found.check().verdict in (Verdict.HOLDS, Verdict.CONSISTENT)


def test_commuting_layers_attain_it():
    powers = tuple(torch.diag(torch.tensor([3.0, 0.5]).double() ** p) for p in (1, 2, 0.3))
    stack = Stack(("a", "b", "c"), powers, (torch.zeros(2).double(),) * 3, 1.0, False)
    (found,) = THEOREM.on(stack, torch.ones(1, 2).double())
    assert found.measured().value == pytest.approx(found.limit().value)


def test_it_has_teeth():
    """Commuting layers attain it; a product more spread by a part in a million violates it."""
    layers = tuple(torch.diag(torch.tensor([3.0**p, 0.5**p]).double()) for p in (1, 2, 0.3))
    stack = Stack(("a", "b", "c"), layers, (torch.zeros(2).double(),) * 3, 1.0, False)
    (found,) = THEOREM.on(stack, torch.ones(1, 2).double())
    assert found.check().verdict == Verdict.CONSISTENT
    for turn, verdict in ((1e-6, Verdict.VIOLATED), (-1e-6, Verdict.HOLDS)):
        point = replace(found.point)
        spread = torch.tensor([1 + turn, 1 / (1 + turn)], dtype=torch.float64)
        point.__dict__["jacobian"] = found.point.jacobian * spread
        point.__dict__["errors"] = found.point.errors
        assert THEOREM("network", point).check().verdict == verdict


def test_it_declines_where_first_corrections_do_not_add_up():
    """Of rank one everywhere, but most of what the first layer keeps the second one drops."""
    W1 = torch.tensor([[1.0], [0.0]]).double()
    W2 = torch.tensor([[0.1, 0.99**0.5]]).double()
    zeros = (torch.zeros(2).double(), torch.zeros(1).double())
    (found,) = THEOREM.on(Stack(("a", "b"), (W1, W2), zeros, 1.0, False), torch.ones(1, 1).double())
    assert found.measured().value == pytest.approx(math.sqrt(2) * math.log(10))
    check = found.check()
    assert check.verdict == Verdict.INAPPLICABLE
    assert "R1(fg)" in next(a.says for a in check.assumptions if a.met is False)


@pytest.mark.usefixtures("as_users_see_it")
def test_default_layers_with_a_wide_middle_are_not_violated():
    for seed in range(40):
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            net = nn.Sequential(nn.Linear(3, 16), nn.Linear(16, 3))
        (found,) = THEOREM.facts(Subject(net, torch.ones(2, 3)))
        assert found.check().verdict == Verdict.INAPPLICABLE


def test_one_rank_in_a_wide_middle_cannot_be_told_to_add_up():
    """Isometries that fit: nothing refutes the sum of first corrections, no number proves it."""
    Q = torch.linalg.qr(torch.randn(6, 2, generator=torch.Generator().manual_seed(0)).double())[0]
    S = torch.diag(torch.tensor([2.0, 0.5]).double())
    zeros = (torch.zeros(6).double(), torch.zeros(2).double())
    (found,) = THEOREM.on(
        Stack(("a", "b"), (Q @ S, S @ Q.mT), zeros, 1.0, False), torch.ones(1, 2).double()
    )
    check = found.check()
    assert [a.met for a in check.assumptions][-1] is None
    assert check.verdict == Verdict.CONSISTENT


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


def test_corrections_add_up_only_where_every_layer_in_between_is_as_wide_as_the_rank():
    """Widths 2 and 6 between: determinants multiply at the first, not for certain at the second."""
    eye = torch.eye(6, 2, dtype=torch.float64)
    S = torch.diag(torch.tensor([2.0, 0.5]).double())
    zeros = tuple(torch.zeros(n, dtype=torch.float64) for n in (2, 6, 2))
    stack = Stack(("a", "b", "c"), (S, eye, eye.mT), zeros, 1.0, False)
    (found,) = ProductCorrection.on(stack, torch.ones(1, 2).double())
    assert found.assumptions()[-1].met is None
    narrow = Stack(("a", "b"), (S, S), (zeros[0],) * 2, 1.0, False)
    (sure,) = ProductCorrection.on(narrow, torch.ones(1, 2).double())
    assert sure.assumptions()[-1].met is True
    # √(2 Σ log² s): of diag(4, 1/4) and twice diag(2, 1/2)
    assert sure.check().measured.value == pytest.approx(2 * math.log(4))
    assert sure.check().limit.value == pytest.approx(4 * math.log(2))
