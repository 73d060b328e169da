import math

import pytest
import scipy
import torch
from hypothesis import given, strategies as st
from scipy.stats import binomtest
from zoo import fresh

from sigmascope.linalg.random_matrix import power_law

SAMPLES = 100


def pareto(exponent, n, seed):
    u = torch.rand(n, generator=fresh(seed), dtype=torch.float64)
    return u ** (-1 / (exponent - 1))


@pytest.mark.parametrize("exponent", [1.6, 2.5, 4.0])
def test_intervals_hold_the_exponent_of_a_power_law(exponent):
    fits = [power_law(pareto(exponent, 400, s), generator=fresh(s)) for s in range(40)]
    held = sum(f.exponent.low <= exponent <= f.exponent.high for f in fits)
    assert held >= 35
    widths = [f.exponent.high - f.exponent.low for f in fits]
    assert sum(widths) / 40 < 0.8 * (exponent - 1)
    values = [f.exponent.value for f in fits]
    assert sum(values) / 40 == pytest.approx(exponent, rel=0.05)


def test_p_values_of_true_power_laws_are_spread_evenly():
    p = sorted(power_law(pareto(2.5, 200, s), generator=fresh(1000 + s)).p.value for s in range(60))
    apart = max(max((i + 1) / 60 - x, x - i / 60) for i, x in enumerate(p))
    assert apart < 1.63 / math.sqrt(60) + 0.02  # Kolmogorov's at 1 %, and a step of the samples


def test_intervals_of_p_are_those_of_clopper_and_pearson():
    for seed in range(4):
        p = power_law(pareto(2.5, 200, seed), generator=fresh(seed)).p
        exact = binomtest(round(p.value * SAMPLES), SAMPLES)
        low, high = exact.proportion_ci(1 - p.risk, method="exact")
        assert (p.low, p.high) == pytest.approx((low, high), rel=1e-9)


def marchenko_pastur(n, seed):
    A = torch.randn(2 * n, n, generator=fresh(seed), dtype=torch.float64)
    return torch.linalg.svdvals(A).square()


OTHERS = {
    "Marchenko-Pastur": lambda seed: marchenko_pastur(400, seed),
    "exponential": lambda seed: -torch.rand(3000, generator=fresh(seed)).double().log(),
    "log-normal": lambda seed: (0.5 * torch.randn(3000, generator=fresh(seed)).double()).exp(),
    "uniform": lambda seed: torch.rand(1000, generator=fresh(seed)).double() + 1,
}


@pytest.mark.parametrize("law", OTHERS)
@pytest.mark.parametrize("seed", range(3))
def test_other_laws_give_no_exponent(law, seed):
    fit = power_law(OTHERS[law](seed), generator=fresh())
    assert fit.refused
    if fit.p is None:
        assert "spans a factor of" in fit.refused
    else:
        assert fit.p.value < 0.1
        assert "samples of the best power law lie closer" in fit.refused


def test_a_tail_of_small_span_is_refused_in_words():
    fit = power_law(1 + pareto(30.0, 500, 0) / 100, generator=fresh())
    assert fit.refused.startswith("its tail spans a factor of ")
    assert fit.refused.endswith(" only, over which any law looks straight")
    assert fit.p is None  # nothing was drawn


def test_nothing_is_drawn_for_a_tail_that_its_span_refuses():
    generator = fresh()
    state = generator.get_state()
    power_law(1 + pareto(30.0, 500, 0) / 100, generator=generator)
    assert torch.equal(generator.get_state(), state)
    power_law(pareto(2.5, 500, 0), generator=generator)
    assert not torch.equal(generator.get_state(), state)


@pytest.mark.parametrize("seed", range(4))
def test_the_distance_is_kolmogorovs(seed):
    x = pareto(2.5, 300, seed)
    fit = power_law(x, generator=fresh())
    tail = x.sort(descending=True).values[: fit.tail].numpy()
    law = scipy.stats.pareto(fit.exponent.value - 1, scale=fit.threshold)
    assert fit.distance == pytest.approx(scipy.stats.kstest(tail, law.cdf).statistic, rel=1e-9)


def test_the_body_below_the_threshold_is_left_out():
    tail = 10 * pareto(2.2, 300, 1)
    body = 10 * torch.rand(700, generator=fresh(2)).double()
    fit = power_law(torch.cat([body, tail]), generator=fresh())
    assert not fit.refused
    assert 150 < fit.tail < 700
    assert fit.exponent.low <= 2.2 <= fit.exponent.high
    assert 5 < fit.threshold < 25


def test_zeros_are_left_out_and_too_few_values_have_no_fit():
    x = pareto(2.5, 200, 3)
    fit = power_law(x, generator=fresh())
    assert power_law(torch.cat([x, torch.zeros(99)]).double(), generator=fresh()) == fit
    assert power_law(x[:49], generator=fresh()) is None
    assert power_law(x[:50], generator=fresh()) is not None
    assert power_law(torch.cat([x[:49], torch.zeros(9)]).double(), generator=fresh()) is None


@pytest.mark.parametrize("scale", [2.0**-900, 2.0**900, 3.7])
def test_the_unit_does_not_matter(scale):
    x = pareto(2.5, 100, 3)
    one, other = (power_law(y, generator=fresh()) for y in (x, x * scale))
    assert other.exponent.value == pytest.approx(one.exponent.value, rel=1e-9)
    assert other.tail == one.tail
    assert other.threshold == pytest.approx(one.threshold * scale)


def in_range(fit):
    assert 1 <= fit.exponent.low <= fit.exponent.value <= fit.exponent.high
    assert math.isfinite(fit.exponent.value)
    assert fit.p is None or 0 <= fit.p.low <= fit.p.value <= fit.p.high <= 1
    assert 0 <= fit.distance <= 1
    assert math.isfinite(fit.threshold)


@pytest.mark.parametrize(
    "x",
    [
        torch.full((80,), 3.0),
        torch.tensor([1.0, 2.0]).repeat(60),
        torch.cat([torch.full((70,), 1.0).double(), torch.tensor([1e300], dtype=torch.float64)]),
        torch.logspace(-300, 300, 90, dtype=torch.float64),
        torch.arange(1.0, 200.0),
    ],
    ids=["constant", "two values", "one far out", "600 decades", "even"],
)
def test_odd_values_are_no_trap(x):
    in_range(power_law(x.double(), generator=fresh()))


def test_equal_values_have_no_exponent():
    for n in (50, 80, 1000):
        assert power_law(torch.full((n,), 3.0).double(), generator=fresh()).refused


@given(st.integers(50, 300), st.integers(0, 10**6), st.floats(0.0, 3.0), st.integers(0, 3))
def test_numbers_stay_in_their_range(n, seed, spread, digits):
    x = (spread * torch.randn(n, generator=fresh(seed)).double()).exp()
    x = (x * 10**digits).round() / 10**digits if digits else x
    fit = power_law(x, generator=fresh(seed))
    if fit is not None:
        in_range(fit)
        assert 25 <= fit.tail <= n
