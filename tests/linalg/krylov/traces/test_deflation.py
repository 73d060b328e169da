import math

import pytest
import scipy.stats
import torch
from zoo import SYMMETRIC, fresh

from sigmascope.linalg.krylov import Operator, krylov_space, symmetric_moments, trace, traces
from sigmascope.linalg.krylov.traces import Chances


def symmetric(n: int = 40) -> torch.Tensor:
    A = torch.randn(n, n, generator=fresh(9), dtype=torch.float64)
    return A + A.mT


def outlying(n: int = 150) -> torch.Tensor:
    """A few large eigenvalues of both signs along sparse and dense directions, many near zero."""
    A = 0.01 * symmetric(n)
    flat = torch.ones(n, dtype=torch.float64) / n**0.5
    A = A + 9.0 * torch.outer(flat, flat)
    A[3, 3] -= 5.0
    return A


@pytest.mark.parametrize("count", [100, pytest.param(1000, marks=pytest.mark.slow)])
@pytest.mark.parametrize("steps", [1, 4, 16])
def test_moments_of_symmetric_operators_are_covered_at_the_stated_rate(steps, count):
    """Where one in seven misses, 100 draws show it but once in 370 times."""
    A = outlying()
    true = A.trace().item(), A.norm().item()
    missed = [0, 0]
    for seed in range(count):
        g = fresh(seed)
        space = krylov_space(Operator.of(A), steps=steps, generator=g)
        found = symmetric_moments(Operator.of(A), within=space, samples=12, generator=g)
        for i in range(2):
            missed[i] += not found[i].low <= true[i] <= found[i].high
    assert max(missed) <= count / 20, missed


def test_the_estimates_are_unbiased_and_better_than_sampling_alone():
    A = outlying()
    true = A.trace().item(), A.norm().item() ** 2
    found = []
    for seed in range(300):
        g = fresh(seed)
        space = krylov_space(Operator.of(A), steps=2, generator=g)
        t, f = symmetric_moments(Operator.of(A), within=space, samples=9, generator=g)
        found.append([t.value, f.value**2])
    found = torch.tensor(found, dtype=torch.float64)
    error = found.std(0) / 300**0.5
    assert bool(((found.mean(0) - torch.tensor(true)).abs() < 4 * error).all())
    alone = [trace(Operator.of(A), samples=20, generator=fresh(s)).value for s in range(300)]
    assert found[:, 0].std().item() < 0.7 * torch.tensor(alone).std().item()


def test_a_decaying_spectrum_is_nearly_exact():
    Q = torch.linalg.qr(torch.randn(120, 120, generator=fresh(1), dtype=torch.float64))[0]
    values = 2.0 ** -torch.arange(120, dtype=torch.float64) * (-1.0) ** torch.arange(120)
    A = Operator.of(Q @ torch.diag(values) @ Q.mT)
    space = krylov_space(A, steps=5, generator=fresh())
    t, f = symmetric_moments(A, within=space, samples=20, generator=fresh())
    assert t.low <= values.sum().item() <= t.high
    assert f.value == pytest.approx(values.norm().item(), rel=1e-6)
    assert t.high - t.low < 1e-3  # of what is left, some 1e-4, one eigenvalue may be all there is


def test_a_sketch_of_all_that_is_left_is_exact():
    A = outlying(30)
    space = krylov_space(Operator.of(A), steps=20, generator=fresh())
    t, f = symmetric_moments(Operator.of(A), within=space, samples=50, generator=fresh())
    assert t.value == pytest.approx(A.trace().item(), rel=1e-12)
    assert f.value == pytest.approx(A.norm().item(), rel=1e-12)
    assert t.high - t.low < 1e-9


@pytest.mark.parametrize("case", SYMMETRIC)
def test_hostile_matrices(case):
    M = SYMMETRIC[case].double()
    space = krylov_space(Operator.of(M), steps=max(1, len(M) // 2), generator=fresh())
    t, f = symmetric_moments(Operator.of(M), within=space, samples=8, generator=fresh())
    true = torch.linalg.eigvalsh(M)
    top = true.abs().max().item() or 1.0
    assert t.low - 1e-9 * top <= true.sum().item() <= t.high + 1e-9 * top
    assert f.low - 1e-9 * top <= top * (true / top).norm().item() <= f.high + 1e-9 * top


def test_a_whole_space_needs_no_samples():
    A = outlying()
    whole = krylov_space(Operator.of(A), steps=150, generator=fresh())
    trace_, norm = symmetric_moments(Operator.of(A), within=whole, samples=2)
    assert trace_.how == norm.how == "exact"
    assert trace_.value == pytest.approx(A.trace().item(), rel=1e-12)
    assert norm.value == pytest.approx(A.norm().item(), rel=1e-12)


def test_the_trace_spends_its_risk_once(monkeypatch):
    """Half on what is known of the rest, and half on how far its forms then stray."""
    spent = []

    class Spent(Chances):
        def bounds(self, mean, largest):
            spent.append(("bounds", self.risk))
            return Chances.bounds(self, mean, largest)

        def deviation(self, square, top):
            spent.append(("deviation", self.risk))
            return Chances.deviation(self, square, top)

    monkeypatch.setattr(traces, "Chances", Spent)
    g = torch.Generator().manual_seed(0)
    A = Operator.of(torch.diag(torch.arange(1.0, 41.0, dtype=torch.float64)))
    space = krylov_space(A, steps=3, generator=g)
    symmetric_moments(A, within=space, samples=4, risk=0.08, generator=g)
    square, *trace = spent
    assert square == ("bounds", 0.08)
    assert trace == [("bounds", 0.04), ("deviation", 0.04)]


@pytest.mark.parametrize("draws", [1, 4])
@pytest.mark.parametrize("share", [0.05, 0.3, 0.6])
def test_the_fewest_directions_are_those_whose_share_is_seldom_so_large(draws, share):
    """By the tail of a beta variable, times e where it is a mean of several draws."""
    size, risk = 60, 1e-3
    slack = 1.0 if draws == 1 else math.e
    tail = lambda m: slack * scipy.stats.beta(draws * m / 2, draws * (size - m) / 2).sf(share)
    found = traces._fewest(share, size, draws=draws, risk=risk)
    assert found == next(m for m in range(1, size) if tail(m) > risk)
