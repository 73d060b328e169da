import copy
import math
from dataclasses import replace

import mpmath
import pytest
import torch
from hypothesis import given, settings, strategies as st
from torch import nn

from sigmascope.core.records import Verdict
from sigmascope.models import Subject
from sigmascope.theory import check, le2022
from tests.models_zoo import Net
from tests.theory.le2022.networks import KINDS, dense, draw, unbiased


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


def test_the_interval_holds_the_alignment_to_sixty_digits():
    """Rounding takes the number to either side of the true one."""
    below = 0
    for seed in range(20):
        W1, W2 = draw(seed, (3, 5), (4, 3))
        with mpmath.workdps(60):
            A, B = (mpmath.matrix(W.tolist()) for W in (W1, W2))
            vectors = [mpmath.eigsy(G)[1] for G in (A * A.T, B.T * B)]  # the largest is the last
            exact = mpmath.fdot(*(Q[:, 2] for Q in vectors)) ** 2
            found = le2022.Pair.of(W1, W2).alignment
            assert found.low <= exact <= found.high
            below += exact < found.value
        assert found.high - found.low < 1e-12
    assert 0 < below < 20


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


@pytest.mark.parametrize("name", ["relu", "conv_relu_pool_dense"])
def test_both_are_silent_where_something_bends_between(name):
    subject = Subject(*KINDS[name](0))
    assert list(le2022.Alignment.facts(subject)) == []
    assert list(le2022.RankOne.facts(subject)) == []


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


@pytest.mark.parametrize(
    "seeds", [range(5), pytest.param(range(5, 60), marks=pytest.mark.slow)], ids=str
)
def test_it_holds_algebraically_at_arbitrary_weights(seeds):
    from sigmascope_experiments.le2022.nets import KINDS as NETS, separable, tailed

    for kind in NETS:
        for seed in seeds:
            net = tailed(kind, seed)
            g = torch.Generator().manual_seed(seed)
            with torch.no_grad():
                for p in net.parameters():
                    p *= 10 ** float(torch.rand((), generator=g) * 2 - 1)
            subject = Subject(net, separable(kind, seed)[0][:4])
            for theorem in (le2022.RankOne, le2022.RankOnePrinted):
                verdicts = {t.check().verdict for t in theorem.facts(subject)}
                assert verdicts == {Verdict.CONSISTENT}, (kind, seed)
                known = {t.check().verdict for t in theorem.since(subject, subject)}
                assert known
                assert known <= {Verdict.HOLDS, Verdict.CONSISTENT}, (kind, seed)


def test_rank_one_has_teeth():
    """Attained by a layer between equal singular values; a part in a million less is violated."""
    eye = torch.eye(2, dtype=torch.float64)
    layer = le2022.InnerLayer("conv", eye, eye, copies=1)
    (bound,) = le2022.rank_one_bound([layer], eye.reshape(1, 4))
    for theorem in (le2022.RankOne, le2022.RankOnePrinted):
        at = theorem("conv", bound, bound.D, 1, biased=False)
        assert at.check().verdict == Verdict.CONSISTENT
        for step, verdict in ((-1e-6, Verdict.VIOLATED), (1e-6, Verdict.HOLDS)):
            moved = replace(bound, D=bound.D + step)
            assert replace(at, now=moved, start=moved.D).check().verdict == verdict
        unknown = replace(at, now=replace(bound, D=bound.D - 1), start=None).check()
        assert unknown.verdict == Verdict.CONSISTENT  # of one set of weights it says nothing
        assert unknown.limit.low == -math.inf
        assert "RankOne.since" in unknown.note


def test_weights_that_were_trained_obey_the_d_of_the_start():
    net, (x, y) = dense(4, 6, 5, 1), draw(1, (20, 4), (20, 1))
    with torch.no_grad():
        for layer in net:
            layer.weight *= 0.3
    start = Subject(copy.deepcopy(net), x)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.01)
    for _ in range(200):
        optimizer.zero_grad()
        (net(x) - y).square().mean().backward()
        optimizer.step()
    found = [t.check() for t in le2022.RankOne.since(start, Subject(net, x))]
    assert {c.verdict for c in found} == {Verdict.HOLDS}
    other = [t.start for t in le2022.RankOne.since(Subject(net, x), Subject(net, x))]
    assert all(c.limit.value != o.value for c, o in zip(found, other, strict=True))


def test_it_ends_at_an_identity_skip_and_says_so():
    """`f(c(h + b(h)))`, all linear: between h and b only their sum keeps a balance."""

    def skipped(net, x):
        h = net.a(x)
        return net.f(net.c(h + net.b(h)))

    sizes = {"a": (4, 5), "b": (5, 5), "c": (5, 6), "f": (6, 1)}
    net = Net(skipped, **unbiased(**sizes)).double()
    subject = Subject(net, torch.ones(2, 4).double())
    tail = le2022.LinearTail.of(subject)
    assert [layer.site for layer in tail.layers] == ["c.weight"]
    found = {t.site: t.check() for t in le2022.RankOne.since(subject, subject)}
    assert found["c.weight"].verdict != Verdict.INAPPLICABLE
    declined = found["a.weight + b.weight (an identity skip)"]
    assert declined.verdict == Verdict.INAPPLICABLE
    assert declined.measured is None


def test_a_bias_before_the_tail_is_none_in_it():
    body = nn.Sequential(nn.Linear(4, 6), nn.ReLU(), nn.Linear(6, 6))
    tail = [nn.Linear(6, 5, bias=False), nn.Linear(5, 1)]
    x = torch.randn(9, 4, generator=torch.Generator().manual_seed(0)).double()
    subject = Subject(nn.Sequential(body[0], body[1], *tail).double(), x)
    (check_,) = [t.check() for t in le2022.RankOne.since(subject, subject)]
    assert check_.verdict in (Verdict.HOLDS, Verdict.CONSISTENT)


def test_rank_one_declines():
    biased = nn.Sequential(nn.Linear(4, 6), nn.Linear(6, 1)).double()
    for net in (dense(4, 6, 5, 2), biased):  # several outputs, a bias
        facts = le2022.RankOne.facts(Subject(net, torch.ones(2, 4).double()))
        assert {t.check().verdict for t in facts} == {Verdict.INAPPLICABLE}


def test_tails_of_the_four_kinds_have_the_constants_of_the_theory():
    from sigmascope_experiments.le2022.nets import KINDS as NETS, separable, tailed

    expected = ([1, 1, 1], [1, 1], [2, 1, 1], [16, 4, 1])
    printed = ([1, 1, 1], [1, 1], [8, 1, 1], [16, 4, 1])
    for kind, S, P in zip(NETS, expected, printed, strict=True):
        tail = le2022.LinearTail.of(Subject(tailed(kind, 0), separable(kind, 0)[0]))
        bounds = le2022.rank_one_bound(tail.layers, tail.last)
        assert [b.S for b in bounds] == S
        wide = le2022.rank_one_bound(tail.layers, tail.last, block_cost=8)
        assert [b.S for b in wide] == P
