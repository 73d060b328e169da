"""Theorem 2 on models: an identity of one set of weights, a bound on trained ones."""

import copy
import math
from dataclasses import replace

import pytest
import torch
from torch import nn

from sigmascope.probes import Subject
from sigmascope.records import Verdict
from sigmascope.theory import le2022
from tests.theory.le2022.linear_networks import dense, draw
from tests.theory.le2022.networks import KINDS


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
