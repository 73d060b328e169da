"""Closed forms against QR, the reference values, and one another."""

import math
from dataclasses import replace

import mpmath
import pytest
import torch

from sigmascope.records import Estimate, Verdict
from sigmascope.theory.daneshmand2020 import (
    RankOneProducts,
    exponent_sum,
    product_exponents,
    small_gamma_exponents,
    top_exponent,
)
from sigmascope.theory.random_chains import LinearChain
from tests.theory.daneshmand2020.told import PART, told


def chain(width, gamma=math.inf, chains=16, **options):
    g = torch.Generator().manual_seed(width)
    return LinearChain(width, gamma, chains=chains, generator=g, **options)


@pytest.mark.parametrize(("width", "first"), [(8, 0.9746), (16, 1.3544), (32, 1.7171)])
def test_first_exponent_of_products(width, first):
    assert product_exponents(width)[0].value == pytest.approx(first, abs=5e-5)


def test_gap_of_wide_products_is_half_of_one_over_the_width():
    first, second, *_ = product_exponents(32)
    assert first.value - second.value == pytest.approx(0.0164, abs=5e-5)


def test_all_exponents_of_products_agree_with_qr():
    found = chain(6).exponents(3000)
    for e, exact in zip(found, product_exponents(6), strict=True):
        assert abs(e.value - exact.value) <= 2 * (e.high - e.low)


def test_variance_shifts_them():
    one, four = product_exponents(5)[2], product_exponents(5, variance=4.0)[2]
    assert four.value - one.value == pytest.approx(math.log(2))


@pytest.mark.parametrize(
    ("width", "gamma", "value"),
    [(4, 0.5, 0.24062), (8, 1.0, 1.03417), (16, 0.1, 0.06606), (32, 0.1, 0.13208)],
)
def test_top_exponent(width, gamma, value):
    exact = top_exponent(width, gamma)
    assert exact.value == pytest.approx(value, abs=5e-6)
    measured = chain(width, gamma).exponents(800, count=1)[0]
    assert abs(measured.value - exact.value) <= 2 * (measured.high - measured.low)


def test_top_exponent_meets_both_limits():
    assert top_exponent(7, 1e4).value - math.log(1e4) == pytest.approx(
        product_exponents(7)[0].value, abs=1e-6
    )
    for gamma in (1e-2, 1e-3, 1e-4):
        small = small_gamma_exponents(9, gamma)[0]
        exact = top_exponent(9, gamma)
        assert max(exact.low, small.low) <= min(exact.high, small.high)
        assert exact.high - exact.low < 1e-4 * exact.value


def test_small_gamma_law_against_qr():
    """μ/γ² = 2, 1, 0, -1, -2, -3 at width 6 to leading order."""
    found = chain(6, 0.05, chains=64).exponents(1500)
    for e, law in zip(found, small_gamma_exponents(6, 0.05), strict=True):
        assert abs(e.value - law.value) <= 2 * (e.high - e.low) + (law.high - law.value)


@pytest.mark.parametrize("count", [1, 3])
def test_sums_of_exponents(count):
    g = torch.Generator().manual_seed(0)
    total = exponent_sum(5, 0.5, count, generator=g)
    measured = chain(5, 0.5).exponents(1500, count=count)
    error = sum(e.high - e.low for e in measured)
    assert abs(total.value - sum(e.value for e in measured)) <= error + total.high - total.low


@pytest.mark.parametrize("weights", ["gaussian", "uniform"])
@pytest.mark.parametrize("gamma", [0.5, math.inf])
def test_products_become_rank_one(weights, gamma):
    theorem = RankOneProducts.of(chain(8, gamma, weights=weights), layers=800)
    assert theorem.check().verdict == Verdict.HOLDS


def test_rank_one_products_predict_the_depth_of_collapse():
    """The layers at which σ₂ has fallen below 8e-7 σ₁, over 64 chains."""
    theorem = RankOneProducts.of(chain(8), layers=2000)
    running = chain(8, chains=64)
    depth = torch.zeros(64)
    for layer in range(1, 900):
        running.step()
        sigma = running.singular_values()
        depth[(sigma[:, 1] > 8e-7 * sigma[:, 0])] = layer
    mean, error = float(depth.mean()), float(depth.std()) / 8
    predicted = theorem.collapse()
    assert abs(mean - predicted.value) < 3 * error + predicted.high - predicted.low


def test_rank_one_products_have_teeth():
    theorem = RankOneProducts.of(chain(4), layers=200)
    broken = replace(theorem, gap=Estimate(-0.2, -0.3, -0.1, "wrong"))
    assert broken.check().verdict == Verdict.VIOLATED


def test_rank_one_products_decline_with_one_unit():
    assert RankOneProducts.of(chain(1), layers=64).check().verdict == Verdict.INAPPLICABLE


def test_exponents_of_products_by_hand():
    """`ψ(1) = -γ`, `ψ(1/2) = -γ - 2 ln 2`: width 2, variances 1 and 4."""
    euler = 0.5772156649015329
    for variance in (1.0, 4.0):
        first, second = product_exponents(2, variance=variance)
        assert first.value == pytest.approx((math.log(2 * variance) - euler) / 2)
        assert second.value == pytest.approx(first.value - math.log(2))
    gap = RankOneProducts.known(2)
    assert gap.gap.value == pytest.approx(math.log(2))
    for value, verdict in ((-PART, Verdict.VIOLATED), (PART, Verdict.HOLDS)):
        assert replace(gap, gap=told(value)).check().verdict is verdict
    assert replace(gap, width=1).check().verdict is Verdict.INAPPLICABLE
    # σ₂/σ₁ = 2e-7 after ln(5e6) / ln 2 layers
    assert gap.collapse().value == pytest.approx(math.log(5e6) / math.log(2))


def test_exponents_at_small_gamma():
    """`γ² (d - 2i) / 2`, known to `γ⁴ d²`."""
    found = small_gamma_exponents(4, 0.1)
    assert [e.value for e in found] == pytest.approx([0.01, 0.0, -0.01, -0.02])
    assert found[0].high - found[0].value == pytest.approx(0.0016)
    assert found[0].value - found[0].low == pytest.approx(0.0016)


@pytest.mark.parametrize(("width", "gamma"), [(1, 0.7), (3, 0.5), (6, 2.0), (4, 0.15)])
def test_the_largest_exponent_is_the_mean_logarithm_of_a_non_central_chi_square(width, gamma):
    """`(ln 2γ² + Σ_j P(j) ψ(d/2 + j)) / 2` with P Poisson of mean `1/2γ²`, in 30 digits."""
    with mpmath.workdps(30):
        square = mpmath.mpf(gamma) ** 2
        mean = 1 / (2 * square)
        term = lambda j: (
            mpmath.exp(j * mpmath.log(mean) - mean - mpmath.loggamma(j + 1))
            * mpmath.digamma(mpmath.mpf(width) / 2 + j)
        )
        total = mpmath.fsum(term(j) for j in range(200))
        expected = float((mpmath.log(2 * square) + total) / 2)
    found = top_exponent(width, gamma)
    assert found.value == pytest.approx(expected, rel=1e-9)
    assert found.low <= expected <= found.high
