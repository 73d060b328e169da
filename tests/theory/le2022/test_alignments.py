import copy
import math
from dataclasses import replace
from itertools import pairwise

import pytest
import torch
from hypothesis import given, settings, strategies as st
from torch import nn
from torch.nn import functional as F

from sigmascope.probes import Subject
from sigmascope.probes.symmetry import trial_gradients
from sigmascope.records import Estimate, Verdict
from sigmascope.theory import check, le2022
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
    assert pair.alignment.high >= pair.least().low
    given = pair.least(C)
    assert given.low <= pair.least().high
    assert pair.least().low <= given.high
    assert le2022.alignment_lower_bound(W1, W2, C) == pytest.approx(given.value)
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


# Theorem 2


def tail_of(net, x):
    return le2022.Tail.of(Subject(net, x))


def test_tails_of_the_four_kinds_have_the_constants_of_the_theory():
    from sigmascope_experiments.le2022.nets import KINDS as NETS, separable, tailed

    expected = ([1, 1, 1], [1, 1], [2, 1, 1], [16, 4, 1])
    printed = ([1, 1, 1], [1, 1], [8, 1, 1], [16, 4, 1])
    for kind, S, P in zip(NETS, expected, printed, strict=True):
        tail = tail_of(tailed(kind, 0), separable(kind, 0)[0])
        bounds = le2022.rank_one_bound(tail.layers, tail.last)
        assert [b.S for b in bounds] == S
        wide = le2022.rank_one_bound(tail.layers, tail.last, block_cost=8)
        assert [b.S for b in wide] == P


def test_it_holds_algebraically_at_arbitrary_weights():
    from sigmascope_experiments.le2022.nets import KINDS as NETS, separable, tailed

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
                assert verdicts == {Verdict.CONSISTENT}, (kind, seed)
                known = {t.check().verdict for t in theorem.since(subject, subject)}
                assert known
                assert known <= {Verdict.HOLDS, Verdict.CONSISTENT}, (kind, seed)


def test_the_factor_where_convolutions_meet_dense_layers_is_needed():
    """Two channels, kernel I_2, last row I_2: balanced, and the ratio is exactly 1/2."""
    eye = torch.eye(2, dtype=torch.float64)
    layer = le2022.Layer("conv", eye, eye, copies=1)
    (bound,) = le2022.rank_one_bound([layer], eye.reshape(1, 4))
    assert bound.ratio == pytest.approx(0.5)
    assert (2, pytest.approx(0)) == (bound.S, bound.D.value)
    assert bound.least == pytest.approx(0.5)


def test_rank_one_has_teeth():
    """Attained by a layer between equal singular values; a part in a million less is violated."""
    eye = torch.eye(2, dtype=torch.float64)
    layer = le2022.Layer("conv", eye, eye, copies=1)
    (bound,) = le2022.rank_one_bound([layer], eye.reshape(1, 4))
    for theorem in (le2022.RankOne, le2022.RankOnePrinted):
        at = theorem("conv", bound, bound.D, 1, biased=False)
        assert at.check().verdict == Verdict.CONSISTENT
        for step, verdict in ((-1e-6, Verdict.VIOLATED), (1e-6, Verdict.HOLDS)):
            moved = replace(bound, D=bound.D + step)
            assert replace(at, now=moved, start=moved.D).check().verdict == verdict
        unknown = replace(at, now=replace(bound, D=bound.D - 1), start=None).check()
        assert unknown.verdict == Verdict.CONSISTENT
        assert "RankOne.since" in unknown.note


def test_of_one_set_of_weights_it_says_nothing():
    net, x = dense(4, 6, 5, 1), torch.ones(2, 4).double()
    found = [t.check() for t in le2022.RankOne.facts(Subject(net, x))]
    assert {c.verdict for c in found} == {Verdict.CONSISTENT}
    assert all(c.limit.low == -math.inf for c in found)


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


class Skipped(nn.Module):
    """`f(c(h + b(h)))`, all linear: between h and b only their sum keeps a balance."""

    def __init__(self):
        super().__init__()
        self.a, self.b = nn.Linear(4, 5, bias=False), nn.Linear(5, 5, bias=False)
        self.c, self.f = nn.Linear(5, 6, bias=False), nn.Linear(6, 1, bias=False)

    def forward(self, x):
        h = self.a(x)
        return self.f(self.c(h + self.b(h)))


def test_it_ends_at_an_identity_skip_and_says_so():
    subject = Subject(Skipped().double(), torch.ones(2, 4).double())
    tail = le2022.Tail.of(subject)
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
    x = torch.ones(2, 4).double()
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
    assert replace(bound, frobenius=Estimate.exactly(size)).least == pytest.approx(0.99)
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
    theorems = list(le2022.conservation.BalanceRate.facts(Subject(model, batch)))
    assert theorems
    assert {t.check().verdict for t in theorems} == {Verdict.HOLDS}
    limit = theorems[0].invariant.tolerance
    for factor, verdict in ((1 + 1e-6, Verdict.VIOLATED), (1 - 1e-6, Verdict.HOLDS)):
        moved = replace(theorems[0].invariant, rate=factor * limit)
        assert replace(theorems[0], invariant=moved).check().verdict == verdict
    frozen = nn.Linear(3, 2).requires_grad_(False)
    assert list(le2022.conservation.BalanceRate.facts(Subject(frozen, torch.ones(2, 3)))) == []


def test_rates_within_eps_are_consistent():
    net = nn.Sequential(nn.Linear(4, 6), nn.BatchNorm1d(6, eps=1e-2), nn.Linear(6, 2)).double()
    g = torch.Generator().manual_seed(0)
    x = torch.randn(9, 4, generator=g).double()
    verdicts = {
        t.site: t.check().verdict for t in le2022.conservation.BalanceRate.facts(Subject(net, x))
    }
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


# Gradients that cancel


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
    for net, x, y in (regressed(dtype, 1500), regressed(dtype, 4000)):
        subject = Subject(net, x, y, F.mse_loss)
        assert {t.check().verdict for t in le2022.conservation.BalanceRate.facts(subject)} == {
            Verdict.HOLDS
        }
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
        trial_gradients(model, x, targets=y, loss=loss, pull="reweighted")
        for loss in (F.mse_loss, single)
    ]
    for name, g in weighted[0].items():
        assert torch.allclose(g, weighted[1][name], rtol=1e-4, atol=1e-6)
    plain = trial_gradients(model, x, targets=y, loss=F.mse_loss)
    moved = trial_gradients(model, x, targets=y, loss=F.mse_loss, nudge=1e-6)
    for name, g in plain.items():
        assert 0 < float((g - moved[name]).norm()) < 1e-3 * float(g.norm())
