"""Bounds of rounding against the same products in exact fractions."""

from fractions import Fraction

import pytest
import torch

from sigmascope.probes.structure import Stack
from tests.theory.jacot2023.stacks import stack


def fractions(t):
    return [[Fraction(v) for v in row] for row in t.tolist()]


def times(A, B):
    columns = list(zip(*B, strict=True))
    return [[sum(a * b for a, b in zip(row, col, strict=True)) for col in columns] for row in A]


def gated(z, A, slope):
    return [[(1 if v > 0 else slope) * a for a in row] for (v,), row in zip(z, A, strict=True)]


def off(found, exact):
    """Frobenius norm of the error."""
    rows = zip(fractions(found), exact, strict=True)
    return float(sum((a - b) ** 2 for f, e in rows for a, b in zip(f, e, strict=True))) ** 0.5


def exactly(net, x):
    """Pre-activations, chains and what layers read, and the Jacobian, without rounding."""
    slope = Fraction(net.slope)
    a, F = [[Fraction(v)] for v in x.tolist()], fractions(torch.eye(len(x)))
    zs, chains, forwards = [], [], []
    for W, b in zip(map(fractions, net.weights), net.biases, strict=True):
        forwards.append(F)
        z = [[v + Fraction(c)] for (v,), c in zip(times(W, a), b.tolist(), strict=True)]
        zs.append(z)
        chains.append(times(W, F))
        a, F = gated(z, z, slope), gated(z, chains[-1], slope)
    return zs, chains, forwards


@pytest.mark.parametrize("seed", range(8))
def test_no_error_exceeds_its_bound(seed):
    net, x, _ = stack(seed, depth=4, width=5)
    point = net.at(x)
    errors = point.errors
    assert errors.decided
    zs, chains, forwards = exactly(net, x)
    for k in range(net.depth):
        z = point.preactivations[k]
        exact = torch.tensor(
            [float(Fraction(v) - e) for v, (e,) in zip(z.tolist(), zs[k], strict=True)]
        )
        assert (exact.abs() <= errors.preactivations[k]).all()
        assert off(net.weights[k] @ point.forwards[k], chains[k]) <= errors.chains[k]
        assert off(point.forwards[k], forwards[k]) <= errors.forwards[k]
    assert off(point.jacobian, chains[-1]) <= errors.jacobian
    # and they are of the order of rounding
    assert errors.jacobian <= 1e-12 * (1 + float(point.jacobian.norm()) + net.norm)


def one(*weights, slope=0.0):
    layers = tuple(torch.tensor(w, dtype=torch.float64) for w in weights)
    zeros = tuple(torch.zeros(len(W), dtype=torch.float64) for W in layers)
    return Stack(tuple("ab"), layers, zeros, slope, biased=False)


def test_a_unit_whose_side_rounding_may_decide_counts_as_both():
    net = one([[1.0, -1.0]], [[2.0]])
    near = net.at(torch.tensor([1.0, 1.0 - 2.0**-53]).double())
    assert not near.errors.decided
    # the Jacobian may be 0 or [2, -2], whichever was found
    assert near.errors.jacobian >= 8**0.5 * (1 - 1e-12)
    far = net.at(torch.tensor([1.0, 0.5]).double())
    assert far.errors.decided
    assert far.errors.jacobian < 1e-14


def test_a_unit_exactly_at_its_kink_is_decided():
    assert one([[1.0]], [[1.0]]).at(torch.zeros(1).double()).errors.decided


def test_a_linear_network_has_no_kinks_to_be_unsure_of():
    near = one([[1.0, -1.0]], [[2.0]], slope=1.0).at(torch.tensor([1.0, 1.0 - 2.0**-53]).double())
    assert near.errors.jacobian < 1e-14


def test_a_unit_that_is_off_passes_no_error_on():
    net = one([[1.0], [1.0]], [[1e9, 1.0]])
    off_first = Stack(
        net.sites, net.weights, (torch.tensor([-2.0, 0.0]).double(), net.biases[1]), 0.0
    )
    x = torch.ones(1).double()
    assert off_first.at(x).errors.preactivations[1] < 1e-14
    assert net.at(x).errors.preactivations[1] > 1e-8
