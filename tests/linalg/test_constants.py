"""Constants of estimators by hand, and intervals that follow the scale of their matrix."""

import math

import pytest
import torch
from scipy import stats

from sigmascope.linalg import lyapunov_exponents, ratio_average, time_average, zero_exponents
from sigmascope.linalg.krylov import (
    Krylov,
    Operator,
    deflation,
    extreme_eigenvalues,
    krylov_space,
    symmetric_moments,
    trace_of_forms,
)
from sigmascope.linalg.krylov.quadratic_forms import Chances
from sigmascope.linalg.random_matrix import singular_edge, symmetric_edge
from sigmascope.linalg.spectra.inertia import _reaching
from sigmascope.records import Estimate


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


def test_edges_of_gaussian_matrices_by_hand():
    """Johnstone's centre and scale at n = 2, and `√(8n - 4)`, `√2 (n - 1/2)^(-1/6)`."""
    found = singular_edge(2)
    root = 1 + math.sqrt(2)
    assert found.centre == pytest.approx(root**2)
    assert found.scale == pytest.approx(root * (1 + 1 / math.sqrt(2)) ** (1 / 3))
    both = symmetric_edge(5)
    assert (both.centre, both.scale) == pytest.approx((6, math.sqrt(2) * 4.5 ** (-1 / 6)))


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


@pytest.mark.parametrize("power", [-60, 60])
def test_intervals_of_eigenvalues_follow_the_scale(power):
    basis = torch.eye(5, 2, dtype=torch.float64)
    matrix = torch.tensor([[1.0, 0.5], [0.5, -1.0]], dtype=torch.float64)
    plain, scaled = (
        extreme_eigenvalues(Krylov(basis, scale * matrix, scale * 0.3, 2.0**-52))
        for scale in (1.0, 2.0**power)
    )
    for one, other in zip(plain.top + plain.bottom, scaled.top + scaled.bottom, strict=True):
        for name in ("low", "value", "high"):
            assert getattr(other, name) == pytest.approx(2.0**power * getattr(one, name), rel=1e-9)
        assert one.high - one.low > 1  # much is left open


def test_the_growth_of_a_block_of_two():
    """`[[0, 1], [1, 0]]` is one block: one value above 0, `|L||D||Lᵀ|` is the matrix itself."""
    assert _reaching(torch.tensor([[0.0, 1.0], [1.0, 0.0]], dtype=torch.float64), 0.0) == (1, 1.0)
    # twice the identity less one: two values at 1, no growth
    assert _reaching(2 * torch.eye(2, dtype=torch.float64), 1.0) == (2, 1.0)
    assert _reaching(torch.eye(2, dtype=torch.float64), 1.0)[0] == 2  # at zero counts


def test_what_one_random_form_proves_of_a_trace():
    """`tr B ≥ xᵀBx / q(1 - ρ/6)` and `≤ xᵀBx / q(ρ/6)`, quantiles of χ² of one degree."""
    found = trace_of_forms(torch.tensor([[3.0]], dtype=torch.float64), how="told", risk=0.06)
    assert found.value == 3
    assert found.low == pytest.approx(3 / stats.chi2.isf(0.01, 1))
    assert found.high == pytest.approx(3 / stats.chi2.ppf(0.01, 1))


@pytest.mark.parametrize(("random", "reach"), [(1.0, 6.0), (0.5, 12.0)])
def test_what_one_step_leaves_open_of_the_largest_eigenvalue(random, reach):
    """`c |λ - θ| ≤ β`; in three dimensions the component c of a random direction is uniform.

    With a chance of one half it is below 1/2, so that λ is up to `3 / (1/2)` away.
    """
    basis = torch.tensor([[1.0], [0.0], [0.0]], dtype=torch.float64)
    space = Krylov(basis, torch.tensor([[2.0]], dtype=torch.float64), 3.0, 2.0**-52, random)
    found = extreme_eigenvalues(space, risk=0.5)
    assert found.top[0].value == found.bottom[0].value == 2
    assert found.top[0].high == pytest.approx(2 + reach)
    assert found.bottom[0].low == pytest.approx(2 - reach)
    assert found.top[0].low == pytest.approx(2)
    assert found.top[0].risk == 0.5


def spread(value, width):
    return Estimate(value, value - width, value + width, "told", 0.05)


@pytest.mark.parametrize(
    ("width", "fast", "sure"),
    [
        # known to 1.5 widths: to an eighth of the mean distance 0.8 / 2 ...
        (0.05 / 1.5 * 0.99, 0.8, 1),
        (0.05 / 1.5 * 1.01, 0.8, 0),
        # ... which is finer than a quarter of the least rate
        (0.01 / 1.5 * 0.99, 0.16, 1),
        (0.01 / 1.5 * 1.01, 0.16, 0),
    ],
)
def test_how_finely_a_zero_exponent_must_be_resolved(width, fast, sure):
    found = zero_exponents((spread(0.0, width), spread(-fast, 0.01 * fast)))
    assert (found.value, found.low, found.high) == (1, sure, 1)


def test_a_quarter_of_the_least_rate_counts_where_it_is_finer():
    """Rates 0.04 and 8: a quarter of 0.04 is 0.01, an eighth of the mean distance 8 / 24."""
    for width, sure in ((0.01 / 1.5 * 0.99, 1), (0.01 / 1.5 * 1.01, 0)):
        found = zero_exponents((spread(0.0, width), spread(-0.04, 0.001), spread(-8.0, 0.1)))
        assert (found.value, found.low) == (1, sure)


def test_powers_of_zero():
    zero = Estimate.exactly(0.0)
    assert [(zero**p).value for p in (2, 0, -1)] == [0.0, 1.0, math.inf]


def test_how_far_the_mean_of_forms_strays():
    """Laurent & Massart 2000, Lemma 1: `2 ‖A‖_F √(x/k) + 2 ‖A‖ x/k`, but for `2 exp(-x)`.

    x = 2, k = 8, `‖A‖_F` = 3 and `‖A‖` = 2 give 3 + 1; a norm is at most that of Frobenius.
    """
    chances = Chances(8, 2 * math.exp(-2))
    assert chances.deviation(9.0, 4.0) == pytest.approx(4)
    assert chances.deviation(9.0, 1e9) == pytest.approx(3 + 1.5)


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

    monkeypatch.setattr(deflation, "Chances", Spent)
    g = torch.Generator().manual_seed(0)
    A = Operator.of(torch.diag(torch.arange(1.0, 41.0, dtype=torch.float64)))
    space = krylov_space(A, steps=3, generator=g)
    symmetric_moments(A, within=space, samples=4, risk=0.08, generator=g)
    square, *trace = spent
    assert square == ("bounds", 0.08)
    assert trace == [("bounds", 0.04), ("deviation", 0.04)]
