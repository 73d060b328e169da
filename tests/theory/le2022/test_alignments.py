import math
from dataclasses import replace
from itertools import pairwise

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from sigmascope.probes import Subject
from sigmascope.theory import Verdict, check, le2022
from tests.theory.le2022.networks import KINDS


def draw(seed, *shapes):
    g = torch.Generator().manual_seed(seed)
    return [torch.randn(*s, generator=g, dtype=torch.float64) for s in shapes]


def of(model, x):
    return [t.check() for t in le2022.Alignment.facts(Subject(model, x))]


def dense(*widths, seed=0):
    g = torch.Generator().manual_seed(seed)
    net = nn.Sequential(*(nn.Linear(a, b, bias=False) for a, b in pairwise(widths)))
    with torch.no_grad():
        for layer in net:
            layer.weight.copy_(torch.randn(layer.weight.shape, generator=g))
    return net.double()


@given(st.integers(0, 10**6), st.integers(2, 9), st.integers(1, 9), st.integers(1, 9))
@settings(max_examples=200)
def test_it_holds_at_any_weights(seed, h, a, c):
    W1, W2 = draw(seed, (h, a), (c, h))
    C = W2.T @ W2 - W1 @ W1.T
    pair = le2022.Pair.of(W1, W2)
    assert pair.alignment.high >= pair.least() - 1e-9
    assert pair.least() == pytest.approx(le2022.alignment_lower_bound(W1, W2, C), abs=1e-9)
    for verdict in (t.verdict for t in of(dense(a, h, c, seed=seed), torch.ones(3, a).double())):
        assert verdict in (Verdict.HOLDS, Verdict.CONSISTENT, Verdict.INAPPLICABLE)


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


def test_it_has_teeth():
    (theorem,) = le2022.Alignment.facts(Subject(dense(4, 6, 3), torch.ones(2, 4).double()))
    small = torch.eye(6, dtype=torch.float64) * 1e-6  # a balance that these weights do not have
    C = theorem.pair.above - theorem.pair.below
    wrong = replace(theorem, balance=small - 5 * C.abs().max() * torch.eye(6, dtype=torch.float64))
    assert theorem.check().verdict != Verdict.VIOLATED
    assert wrong.check().verdict == Verdict.VIOLATED


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


# Theorem 2


def tail_of(net, x):
    return le2022.Tail.of(Subject(net, x))


def test_tails_of_the_four_kinds_have_the_constants_of_the_theory():
    from sigmascope.experiments.le2022.nets import KINDS as NETS
    from sigmascope.experiments.le2022.nets import separable, tailed

    expected = ([1, 1, 1], [1, 1], [2, 1, 1], [16, 4, 1])
    printed = ([1, 1, 1], [1, 1], [8, 1, 1], [16, 4, 1])
    for kind, S, P in zip(NETS, expected, printed, strict=True):
        tail = tail_of(tailed(kind, 0), separable(kind, 0)[0])
        bounds = le2022.rank_one_bound(tail.layers, tail.last)
        assert [b.S for b in bounds] == S
        wide = le2022.rank_one_bound(tail.layers, tail.last, block_cost=8)
        assert [b.S for b in wide] == P


def test_it_holds_algebraically_at_arbitrary_weights():
    from sigmascope.experiments.le2022.nets import KINDS as NETS
    from sigmascope.experiments.le2022.nets import separable, tailed

    for kind in NETS:
        for seed in range(60):
            net = tailed(kind, seed)
            g = torch.Generator().manual_seed(seed)
            with torch.no_grad():
                for p in net.parameters():
                    p *= 10 ** float(torch.rand((), generator=g) * 2 - 1)
            subject = Subject(net, separable(kind, seed)[0][:4])
            for theorem in (le2022.RankOne, le2022.RankOnePrinted):
                verdicts = {t.check().verdict for t in theorem.facts(subject)}
                assert verdicts <= {Verdict.HOLDS, Verdict.CONSISTENT}, (kind, seed)
                assert verdicts


def test_the_factor_where_convolutions_meet_dense_layers_is_needed():
    """Two channels, kernel I_2, last row I_2: balanced, and the ratio is exactly 1/2."""
    eye = torch.eye(2, dtype=torch.float64)
    layer = le2022.Layer("conv", eye, eye, copies=1)
    (bound,) = le2022.rank_one_bound([layer], eye.reshape(1, 4))
    assert bound.ratio == pytest.approx(0.5)
    assert (2, pytest.approx(0)) == (bound.S, bound.D)
    assert bound.least == pytest.approx(0.5)


def test_rank_one_has_teeth_and_declines():
    net = dense(4, 6, 5, 1)
    x = torch.ones(2, 4).double()
    first = next(le2022.RankOne.facts(Subject(net, x)))
    assert first.check().verdict == Verdict.HOLDS
    wrong = replace(first, bound=replace(first.bound, D=first.bound.D - 10 * first.bound.frobenius))
    assert wrong.check().verdict == Verdict.VIOLATED
    several = {t.check().verdict for t in le2022.RankOne.facts(Subject(dense(4, 6, 5, 2), x))}
    assert several == {Verdict.INAPPLICABLE}
    biased = nn.Sequential(nn.Linear(4, 6), nn.Linear(6, 1)).double()
    assert {t.check().verdict for t in le2022.RankOne.facts(Subject(biased, x))} == {
        Verdict.INAPPLICABLE
    }


def test_rank_one_is_silent_without_a_linear_tail():
    model, batch = KINDS["relu"](0)
    assert list(le2022.RankOne.facts(Subject(model, batch))) == []


def test_the_size_that_a_ratio_needs():
    layer = le2022.Layer("a", *draw(0, (5, 4), (5, 4)))
    (bound,) = le2022.rank_one_bound([layer], draw(1, (1, 5))[0])
    size = bound.size_needed(0.99)
    assert replace(bound, frobenius=size).least == pytest.approx(0.99)
    assert bound.size_needed(1.0) == math.inf


def test_layers_that_do_not_fit_are_refused():
    one, two = (le2022.Layer("a", *draw(0, s, s)) for s in ((5, 4), (6, 6)))
    with pytest.raises(ValueError, match="must read its 5 units"):
        le2022.rank_one_bound([one, two], draw(1, (1, 6))[0])


@pytest.mark.usefixtures("as_users_see_it")
def test_several_outputs_are_refused():
    layer = le2022.Layer("a", *draw(0, (5, 4), (5, 4)))
    with pytest.raises(ValueError, match="one output"):
        le2022.rank_one_bound([layer], draw(1, (2, 5))[0])


# Rates and signs


def test_rates_hold_and_have_teeth_and_are_silent():
    model, batch = KINDS["pre_norm_block"](0)
    theorems = list(le2022.BalanceRate.facts(Subject(model, batch)))
    assert theorems
    assert {t.check().verdict for t in theorems} == {Verdict.HOLDS}
    wrong = replace(theorems[0], invariant=replace(theorems[0].invariant, rate=1e-3))
    assert wrong.check().verdict == Verdict.VIOLATED
    frozen = nn.Linear(3, 2).requires_grad_(False)
    assert list(le2022.BalanceRate.facts(Subject(frozen, torch.ones(2, 3)))) == []


def test_rates_within_eps_are_consistent():
    net = nn.Sequential(nn.Linear(4, 6), nn.BatchNorm1d(6, eps=1e-2), nn.Linear(6, 2)).double()
    g = torch.Generator().manual_seed(0)
    x = torch.randn(9, 4, generator=g).double()
    verdicts = {t.site: t.check().verdict for t in le2022.BalanceRate.facts(Subject(net, x))}
    assert verdicts["0.weight ~ 0.bias"] == Verdict.CONSISTENT


def test_signs_and_patterns_are_followed():
    net = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 2))
    x = torch.randn(5, 3)
    record = le2022.SignRecord()
    first = record.look(net, x, step=0)
    assert set(first) == {"0.weight", "2.weight", "relu #1"}
    assert {s.changed for s in first.values()} == {0}
    with torch.no_grad():
        net[0].weight[0] *= -1
        net[0].bias[0] *= -1
    second = record.look(net, x, step=10)
    assert second["0.weight"] == le2022.Stability(0.25, 0.25, 10)
    assert second["relu #1"].changed == pytest.approx(0.25)
    assert second["2.weight"] == le2022.Stability(0, 0, 0)
    third = record.look(net, x, step=20)
    assert third["0.weight"] == le2022.Stability(0.25, 0, 10)
