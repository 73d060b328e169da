import math

import pytest
import torch
from scipy import stats

from sigmascope.core.records import Estimate
from sigmascope.linalg import (
    collapse_depth,
    lyapunov_exponents,
    ratio_average,
    time_average,
    zero_exponents,
)


def frames(d, k, chains=1, seed=0):
    g = torch.Generator().manual_seed(seed)
    return torch.randn(chains, d, k, generator=g, dtype=torch.float64)


def test_powers_of_one_matrix_have_the_logs_of_its_eigenvalues():
    A = torch.diag(torch.tensor([3.0, 1.0, 0.5, 1e-9], dtype=torch.float64))
    found = lyapunov_exponents(lambda Q: A @ Q, frames(4, 4), layers=200)
    for e, value in zip(found, (3.0, 1.0, 0.5, 1e-9), strict=True):
        assert e.value == pytest.approx(math.log(value), abs=1e-10)


def test_the_sum_is_the_mean_log_determinant():
    g = torch.Generator().manual_seed(1)
    logs = []

    def step(Q):
        W = torch.randn(2, 5, 5, generator=g, dtype=torch.float64)
        logs.append(torch.linalg.slogdet(W)[1])
        return W @ Q

    found = lyapunov_exponents(step, frames(5, 5, chains=2), layers=300, burn_in=0)
    assert sum(e.value for e in found) == pytest.approx(float(torch.stack(logs).mean()))


def test_rotations_have_none():
    g = torch.Generator().manual_seed(2)

    def step(Q):
        return torch.linalg.qr(torch.randn(1, 6, 6, generator=g, dtype=torch.float64))[0] @ Q

    found = lyapunov_exponents(step, frames(6, 6), layers=64)
    assert all(abs(e.value) < 1e-14 for e in found)


def test_too_few_layers_and_lost_directions_are_refused():
    with pytest.raises(ValueError, match="`layers` must be 32 or more"):
        lyapunov_exponents(lambda Q: Q, frames(3, 3), layers=5)
    P = torch.diag(torch.tensor([1.0, 1.0, 0.0], dtype=torch.float64))
    with pytest.raises(ValueError, match="must be invertible"):
        lyapunov_exponents(lambda Q: P @ Q, frames(3, 3), layers=40)


def test_zero_exponents_are_counted_with_doubt():
    def of(*ends):
        return tuple(Estimate((a + b) / 2, a, b, "test", 0.05) for a, b in ends)

    found = zero_exponents(of((-0.01, 0.01), (-0.015, 0.01), (-0.6, -0.5)))
    assert (found.value, found.low, found.high) == (2, 2, 2)
    found = zero_exponents(of((-0.01, 0.01), (-0.03, 0.01), (-0.6, -0.5)))
    assert (found.value, found.low, found.high) == (2, 1, 2)  # the second may be -0.02
    found = zero_exponents(of((-0.01, 0.01), (-0.9, 0.1), (-0.5, -0.4)))
    assert (found.value, found.low) == (2, 1)  # the second is too coarse to be sure of
    found = zero_exponents(of((-0.01, 0.01), (-0.05, -0.02)))  # 4.7 standard errors
    assert (found.value, found.high) == (1, 2)
    found = zero_exponents(of((-1e-16, -1e-16), (-0.5, -0.4)))
    assert (found.value, found.low, found.high) == (1, 1, 1)


def test_collapse_depth_is_the_log_over_the_gap():
    e = collapse_depth(Estimate(0.5, 0.4, 0.6, "test", 0.05), tolerance=1e-6)
    assert e.value == pytest.approx(math.log(1e6) / 0.5)
    assert (e.low, e.high) == pytest.approx((math.log(1e6) / 0.6, math.log(1e6) / 0.4))
    assert collapse_depth(Estimate(0.1, -0.1, 0.2, "test"), tolerance=1e-6).high == math.inf
    with pytest.raises(ValueError, match="between 0 and 1"):
        collapse_depth(Estimate.exactly(1.0), tolerance=2.0)


def test_the_mean_of_independent_stretches_has_students_interval():
    x = torch.randn(4, 8, generator=torch.Generator().manual_seed(0), dtype=torch.float64) + 3
    x = x.flatten()[torch.argsort(x.flatten())].reshape(4, 8)  # any order: the mean is the same
    alternating = torch.stack([x.flatten()[::2], x.flatten().flip(0)[::2]], 1).reshape(4, 8)
    e = time_average(alternating)
    found = stats.ttest_1samp(alternating.flatten().numpy(), 0).confidence_interval(0.95)
    assert e.value == pytest.approx(float(x.mean()))
    assert (e.low, e.high) == pytest.approx((found.low, found.high), rel=1e-9)
    assert e.risk == 0.05


def test_one_stretch_says_nothing_of_its_error():
    e = time_average(torch.ones(1, 1, dtype=torch.float64))
    assert (e.value, e.low, e.high) == (1, -math.inf, math.inf)


def test_intervals_of_slow_processes_cover():
    """Of 200 processes with memory 10, intervals from 32 stretches of 40 miss about 5 %."""
    g = torch.Generator().manual_seed(3)
    steps = torch.randn(200, 1280, generator=g, dtype=torch.float64)
    slow = torch.zeros_like(steps)
    for i in range(1, 1280):
        slow[:, i] = 0.8 * slow[:, i - 1] + steps[:, i]
    means = slow.reshape(200, 32, 40).mean(2)
    missed = sum(not e.low <= 0 <= e.high for e in (time_average(m[None]) for m in means))
    assert missed <= 22  # twice the nominal rate and more would be wrong


def rows(*values):
    return torch.tensor([values], dtype=torch.float64)


def test_leaving_one_out_divides_by_one_less():
    """The jackknife written out: `(n - 1)/n Σ (θ₋ᵢ - mean)²`, for two stretches of two chains."""
    over = torch.tensor([[3.0, 5.0], [4.0, 9.0]], dtype=torch.float64)
    under = torch.tensor([[1.0, 2.0], [2.0, 3.0]], dtype=torch.float64)
    pairs = list(zip(over.flatten().tolist(), under.flatten().tolist(), strict=True))
    left = [
        sum(a for a, _ in rest) / sum(b for _, b in rest)
        for rest in (pairs[:i] + pairs[i + 1 :] for i in range(4))
    ]
    mean = sum(left) / 4
    error = math.sqrt(3 / 4 * sum((x - mean) ** 2 for x in left))
    found = ratio_average(over, under)
    assert found.value == pytest.approx(21 / 8)
    assert found.high - found.value == pytest.approx(3.182446305284263 * error)  # t(0.975; 3)
    assert found.value - found.low == pytest.approx(3.182446305284263 * error)


def test_stretches_that_remember_widen_by_their_correlation():
    """1, 2, 3 deviate by -1, 0, 1: neighbours by 0. Of 0, 0, 3, 3 it is `ρ = 1/3`, a factor 2."""
    plain = stats.t.ppf(0.975, 2) * 1 / math.sqrt(3)
    assert time_average(rows(1, 2, 3)).high - 2 == pytest.approx(plain)
    found = time_average(rows(0, 0, 3, 3))
    # squares 9/4 each; products 9/4, -9/4, 9/4 have the mean 3/4
    expected = stats.t.ppf(0.975, 3) * math.sqrt(9 / 3 / 4) * math.sqrt((1 + 1 / 3) / (1 - 1 / 3))
    assert found.high - 1.5 == pytest.approx(expected)
    # two stretches of a chain are too few to tell
    pair = time_average(torch.tensor([[0.0, 0.0], [3.0, 3.0]], dtype=torch.float64))
    assert pair.high - 1.5 == pytest.approx(stats.t.ppf(0.975, 3) * math.sqrt(9 / 3 / 4))


def test_memory_that_never_ends_widens_no_more_than_by_19_twentieths():
    """A ramp of a thousand steps: the correlation is cut at 0.95, a factor 39."""
    ramp = torch.arange(1000, dtype=torch.float64)[None]
    found = time_average(ramp)
    plain = stats.t.ppf(0.975, 999) * float(ramp.std()) / math.sqrt(1000)
    assert found.high - found.value == pytest.approx(plain * math.sqrt(39))


@pytest.mark.parametrize(
    ("layers", "chains", "enough"), [(32, 1, True), (31, 1, False), (8, 4, True), (7, 4, False)]
)
def test_as_many_layers_as_stretches_are_enough(layers, chains, enough):
    step = lambda frames: 2 * frames
    frames = torch.eye(2, dtype=torch.float64).expand(chains, 2, 2)
    if not enough:
        with pytest.raises(ValueError, match="`layers` must be"):
            lyapunov_exponents(step, frames, layers=layers)
        return
    for found in lyapunov_exponents(step, frames, layers=layers):
        assert found.value == pytest.approx(math.log(2))


def spread(value, width):
    return Estimate(value, value - width, value + width, "told", 0.05)


@pytest.mark.parametrize(
    ("finest", "rates"),
    [
        (0.05, [0.8]),  # an eighth of the mean distance 0.8 / 2 ...
        (0.01, [0.16]),  # ... which is finer than a quarter of the least rate
        (0.01, [0.04, 8.0]),  # a quarter of 0.04; an eighth of 8 / 3 is more
    ],
)
@pytest.mark.parametrize(("part", "sure"), [(0.99, 1), (1.01, 0)])
def test_how_finely_a_zero_exponent_must_be_resolved(finest, rates, part, sure):
    zero = spread(0.0, part * finest / 1.5)  # known to 1.5 widths
    found = zero_exponents((zero, *(spread(-rate, 0.01 * rate) for rate in rates)))
    assert (found.value, found.low, found.high) == (1, sure, 1)


def test_the_mean_is_over_as_many_factors_as_asked_for_behind_the_first():
    """Factors `e⁰, e¹, e², ...`: of 40 behind the first 10 the mean logarithm is 29.5."""
    turn = iter(range(1000))
    step = lambda Q: math.exp(next(turn)) * Q
    for found in lyapunov_exponents(step, frames(3, 2), layers=40, burn_in=10):
        assert found.value == pytest.approx(29.5)
    assert next(turn) == 50
