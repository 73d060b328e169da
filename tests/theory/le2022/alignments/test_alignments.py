import math
from dataclasses import replace

import pytest
import torch
from hypothesis import given, settings, strategies as st
from torch import nn

from sigmascope.probes import Subject
from sigmascope.records import Verdict
from sigmascope.theory import check, le2022
from tests.theory.le2022.linear_networks import dense, draw
from tests.theory.le2022.networks import KINDS


def of(model, x):
    return [t.check() for t in le2022.Alignment.facts(Subject(model, x))]


@given(st.integers(0, 10**6), st.integers(2, 9), st.integers(1, 9), st.integers(1, 9))
@settings(max_examples=60)
def test_it_holds_at_any_weights(seed, h, a, c):
    W1, W2 = draw(seed, (h, a), (c, h))
    C = W2.T @ W2 - W1 @ W1.T
    pair = le2022.Pair.of(W1, W2)
    assert pair.alignment.high >= pair.least().low
    given = pair.least(C)
    assert given.low <= pair.least().high
    assert pair.least().low <= given.high
    assert le2022.alignment_lower_bound(W1, W2, C) == pytest.approx(given.value)
    for verdict in (t.verdict for t in of(dense(a, h, c, seed=seed), torch.ones(3, a).double())):
        assert verdict is not Verdict.VIOLATED


def test_where_the_balance_forces_nothing_it_says_so():
    """At the start of training two random layers need not be aligned: 0 is no limit."""
    found = [
        c for seed in range(8) for c in of(dense(5, 9, 6, seed=seed), torch.ones(3, 5).double())
    ]
    assert {c.verdict for c in found} >= {Verdict.VACUOUS}
    assert all((c.limit.high <= 0) == (c.verdict is Verdict.VACUOUS) for c in found)
    assert all("says nothing" in c.note for c in found if c.verdict is Verdict.VACUOUS)


def test_balanced_layers_are_aligned():
    W1, T = draw(0, (6, 4), (6, 6))
    U, s, _ = torch.linalg.svd(W1)
    Q = torch.linalg.qr(T)[0]
    W2 = Q[:, :4] @ torch.diag(s) @ U[:, :4].T  # W2'W2 = W1 W1'
    assert le2022.alignment(W1, W2).value == pytest.approx(1, abs=1e-12)
    assert le2022.alignment_lower_bound(W1, W2) == pytest.approx(1, abs=1e-10)
    assert le2022.alignment(W1, draw(3, (5, 6))[0]).value < 0.9


def test_the_interval_widens_where_the_first_values_are_close():
    W1 = torch.diag(torch.tensor([1.0, 1.0 - 1e-14, 0.3])).double()
    found = le2022.alignment(W1, draw(1, (4, 3))[0])
    assert (found.low, found.high) == (0, 1)
    assert le2022.alignment_lower_bound(torch.eye(3).double(), W1) == -math.inf


@pytest.mark.parametrize("given", [False, True])
def test_the_bound_holds_for_every_pair_that_rounding_may_have_made(given):
    """A Gram matrix that is off by 1e-4 turns its first vector, and the form at it with that."""
    for seed in range(20):
        below, (E,) = le2022.Pair.of(*draw(seed, (3, 5), (4, 3))), draw(seed + 99, (3, 3))
        E = 1e-4 * (E + E.mT) / torch.linalg.matrix_norm(E + E.mT, 2)
        C = below.above - below.below if given else None
        wide = replace(below, rounding=(1e-12, 1e-4)).least(C)
        moved = replace(below, above=below.above + E).least(C)
        assert wide.low <= moved.value <= wide.high
        assert wide.high - wide.low < 0.1


@pytest.mark.parametrize("scale", [1e-6, 1e-2, 1.0, 1e2, 1e6])
def test_two_units_attain_it_whatever_the_sizes_of_the_layers(scale):
    """An equality: it may not be violated, and a part in a million past it must be."""
    for seed in range(30):
        W1, W2 = draw(seed, (2, 6), (4, 2))
        pair = le2022.Pair.of(W1, scale * W2)
        theorem = le2022.Alignment("a ~ b", pair)
        assert theorem.check().verdict == Verdict.CONSISTENT
        assert pair.alignment.value == pytest.approx(pair.least().value, abs=1e-8)
        if scale > 1 or pair.alignment.value < 1e-3:  # elsewhere the balance itself is rounded
            continue
        C = pair.above - pair.below
        step = 1e-6 * pair.gap.value * torch.eye(2, dtype=torch.float64)
        beyond = replace(theorem, balance=C - step).check()
        assert beyond.verdict == Verdict.VIOLATED, (seed, beyond)
        assert replace(theorem, balance=C + step).check().verdict == Verdict.HOLDS


def test_it_declines_where_the_first_value_is_not_single():
    net = dense(4, 6, 3)
    with torch.no_grad():
        net[0].weight.copy_(torch.eye(6, 4))
    (found,) = of(net, torch.ones(2, 4).double())
    assert found.verdict == Verdict.INAPPLICABLE


def test_it_is_silent_where_something_bends_between():
    model, batch = KINDS["relu"](0)
    assert of(model, batch) == []
    model, batch = KINDS["conv_relu_pool_dense"](0)
    assert of(model, batch) == []


def test_it_is_in_the_catalogue():
    found = list(check(Subject(dense(4, 6, 3), torch.ones(2, 4).double()), only=["alignment"]))
    assert [c.theorem for c in found] == ["alignment"]


def test_a_relu_that_is_never_off_is_no_linear_map():
    draw = torch.Generator().manual_seed(0)
    x = torch.rand(9, 4, generator=draw)
    for act, linear in ((nn.ReLU(), False), (nn.LeakyReLU(), False), (nn.Identity(), True)):
        net = nn.Sequential(nn.Linear(4, 6), act, nn.Linear(6, 5), act, nn.Linear(5, 1))
        with torch.no_grad():
            for layer in net[::2]:
                layer.weight.copy_(torch.rand(layer.weight.shape, generator=draw))
                layer.bias.fill_(1)
        assert bool(list(check(Subject(net, x), only=["alignment"]))) == linear
        assert bool(list(check(Subject(net, x), only=["rank-one"]))) == linear
