"""Constants of the bounds by hand; verdicts and hypotheses that flip next to them."""

import math
from dataclasses import replace

import mpmath
import pytest
import torch
from torch import nn

from sigmascope.networks.chains import BatchNormChain
from sigmascope.probes import Subject
from sigmascope.records import Estimate, Verdict
from sigmascope.theory.daneshmand2020 import (
    ChainSize,
    GradientCollinearity,
    LayerDrift,
    RankOneProducts,
    RankParticipation,
    Regularity,
    SoftRank,
    SoftRankAnyScale,
    StationaryDrift,
    drift,
    drift_of_spectrum,
    product_exponents,
    small_gamma_exponents,
    top_exponent,
)

PART = 1e-6


def told(value):
    return Estimate.exactly(float(value))


def flips(theorem, field, limit):
    """The measured side a part in a million past the limit, and before it."""
    past = 1 + PART if theorem.sense == "at most" else 1 - PART
    for factor, verdict in ((past, Verdict.VIOLATED), (1 / past, Verdict.HOLDS)):
        moved = replace(theorem, **{field: told(limit * factor)})
        assert moved.check().verdict is verdict


def at_input(theorem, H):
    return next(iter(theorem.facts(Subject(nn.Linear(H.shape[1], 3).double(), H.double()))))


def test_a_rank_is_at_least_the_participation_ratio():
    flips(RankParticipation("here", told(0), told(2.5)), "rank", 2.5)


def test_a_soft_rank_is_at_least_a_quarter_of_the_participation_ratio():
    """`(1 - 1/2)² r`, less what a deviation of 1e-3 leaves open: `(1 - 1/1.998)²`."""
    theorem = SoftRank("here", told(0), told(6.0), 1e-3)
    limit = theorem.limit()
    assert (limit.value, limit.high) == pytest.approx((1.5, 1.5))
    assert limit.low == pytest.approx(6 * (1 - 0.5 / 0.999) ** 2)
    for rank, verdict in (
        (limit.low * (1 - PART), Verdict.VIOLATED),
        (limit.low * (1 + PART), Verdict.CONSISTENT),
        (1.5 * (1 + PART), Verdict.HOLDS),
    ):
        assert replace(theorem, rank=told(rank)).check().verdict is verdict


def test_a_soft_rank_at_any_scale():
    """`(1 - τ/t)²` is 9/16 at t = 2."""
    flips(SoftRankAnyScale("here", told(0), told(4.0), told(2)), "rank", 2.25)
    for t, speaks in ((0.5 * (1 - PART), False), (0.5 * (1 + PART), True)):
        found = SoftRankAnyScale("here", told(1), told(1), told(t)).check()
        assert (found.verdict is not Verdict.INAPPLICABLE) is speaks


@pytest.mark.parametrize("theorem", [SoftRank, Regularity])
@pytest.mark.parametrize(("size", "met"), [(1.0009, True), (1.0011, False), (0.9989, False)])
def test_every_feature_must_be_normalised(theorem, size, met):
    """One feature of four has another mean square."""
    H = torch.randn(9, 4, generator=torch.Generator().manual_seed(0)).double()
    H = H / H.square().mean(0).sqrt()
    H[:, 2] *= math.sqrt(size)
    found = at_input(theorem, H)
    assert found.deviation == pytest.approx(abs(size - 1), rel=1e-9)
    assert (found.check().verdict is not Verdict.INAPPLICABLE) is met


def test_regularity_is_at_most_one():
    theorem = Regularity("here", told(0), 1e-3)
    assert theorem.limit().value == 1
    for alpha, verdict in (
        (1.001 * (1 + PART), Verdict.VIOLATED),  # what the deviation leaves open
        (1.001 * (1 - PART), Verdict.CONSISTENT),
        (1 - PART, Verdict.HOLDS),
    ):
        assert replace(theorem, alpha=told(alpha)).check().verdict is verdict


@pytest.mark.parametrize(
    ("second", "shortest", "limit"),
    [
        (0.1, 1.0, 0.98),  # cos(2 asin s) = 1 - 2 s²
        (0.3, 1.5, 1 - 2 * 0.04),
        (0.6, 1.0, 0.28),
        (0.8, 1.0, 0.0),  # beyond a right angle nothing is said
        (3.0, 1.0, 0.0),
        (0.1, 0.0, 0.0),
    ],
)
def test_how_parallel_gradients_are(second, shortest, limit):
    theorem = GradientCollinearity("here", told(0), told(1), second, shortest, 3)
    assert theorem.limit().value == pytest.approx(limit, abs=1e-15)
    if limit:
        flips(theorem, "cosine", limit)


def test_how_parallel_gradients_are_needs_one_direction_and_a_pair():
    theorem = GradientCollinearity("here", told(1), told(1), 0.0, 1.0, 1)
    assert theorem.check().verdict is not Verdict.INAPPLICABLE
    assert replace(theorem, rank=told(1 + PART)).check().verdict is Verdict.INAPPLICABLE
    assert replace(theorem, pairs=0).check().verdict is Verdict.INAPPLICABLE


# -- one layer ------------------------------------------------------------------------------------


def test_the_drift_of_two_correlated_rows():
    """`M = [[1, c], [c, 1]]`: ‖M‖² = 2 + 2c², Tr M³ = 2 + 6c², (M²)ᵢᵢ = 1 + c²."""
    c = 0.5
    expected = 8 - 2 * (2 + 2 * c**2) - 8 * (2 + 6 * c**2) + 16 * (1 + c**2) ** 2
    M = torch.tensor([[1.0, c], [c, 1.0]])
    assert drift(M).value == pytest.approx(expected)
    assert drift_of_spectrum(torch.tensor([1 + c, 1 - c])).value == pytest.approx(expected)
    with pytest.raises(ValueError, match="must add up to"):
        drift_of_spectrum(torch.tensor([1 + c, 1 - c + 1e-8], dtype=torch.float64))
    with pytest.raises(ValueError, match="unit diagonal"):
        drift(torch.diag(torch.tensor([1.0, 1 + 1e-8], dtype=torch.float64)))


@pytest.mark.parametrize(("slope", "size"), [(3.0, 16.0), (-40.0, 40.0)])
def test_how_far_growth_may_be_from_the_drift(slope, size):
    """`γ² d² max(|δ|, d²)` at γ = 1/10 and d = 4."""
    limit = 0.01 * 16 * size
    theorem = LayerDrift("one layer", told(0), told(slope), 0.1, 4, "gaussian")
    for sign in (1, -1):
        for factor, verdict in ((1 + PART, Verdict.VIOLATED), (1 - PART, Verdict.HOLDS)):
            moved = replace(theorem, growth=told(slope + sign * factor * limit))
            assert moved.check().verdict is verdict
    wide = Estimate(slope + 1, slope - 3, slope + 2, "told", 0.05)
    found = replace(theorem, growth=wide).measured()
    assert (found.value, found.low, found.high, found.risk) == pytest.approx((1, 0, 3, 0.05))


@pytest.mark.parametrize(
    ("gamma", "weights", "speaks"),
    [(0.25, "gaussian", True), (0.2501, "gaussian", False), (0.1, "asymmetric", False)],
)
def test_where_the_drift_of_a_layer_is_known(gamma, weights, speaks):
    found = LayerDrift("one layer", told(0), told(0), gamma, 4, weights).check()
    assert (found.verdict is not Verdict.INAPPLICABLE) is speaks


# -- chains ---------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def chain():
    g = torch.Generator().manual_seed(0)
    return BatchNormChain(4, 0.07, chains=4, generator=g).run(60)


@pytest.mark.parametrize(
    ("alpha", "low", "high"),
    [((0.75, 0.64, 0.84), 8 / 0.6, 8 / 0.4), ((0.9, 0.5, 1.1), 8 / 0.5**0.5, math.inf)],
)
def test_an_interval_of_regularity_passes_to_the_limits(chain, alpha, low, high):
    known = replace(chain, regularity=Estimate(*alpha, "told", 0.05))
    limit = ChainSize(known).limit()
    assert (limit.low, limit.value, limit.high) == pytest.approx(
        (low, 8 / math.sqrt(1 - alpha[0]), high)
    )
    assert limit.risk == 0.05


def test_the_smallest_drift_within_an_interval(chain):
    for ends, low in (((-3.0, 1.0, 2.0), 0.0), ((-3.0, -2.0, -1.0), 1.0), ((1.0, 2.0, 3.0), 1.0)):
        bound = StationaryDrift(replace(chain, drift=Estimate(ends[1], ends[0], ends[2], "told")))
        found = bound.measured()
        assert (found.low, found.high) == (low, 3.0)
        assert found.value == abs(ends[1])


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"gamma": 0.3 / 4 * (1 + PART)}, "gamma is small"),
        ({"regularity": Estimate(0.9, 0.8, 1.0, "told")}, "regularity"),
        ({"settled": False}, "stationary"),
    ],
)
def test_hypotheses_of_chains_that_cannot_be_decided(chain, change, says):
    good = replace(chain, gamma=0.3 / 4, settled=True, regularity=told(0.75))
    assert all(a.met for a in ChainSize(good).assumptions())
    unknown = [a.says for a in ChainSize(replace(good, **change)).assumptions() if a.met is None]
    assert len(unknown) == 1
    assert says in unknown[0]


@pytest.mark.parametrize(("gamma", "speaks"), [(0.5 * (1 - PART), True), (0.5, False)])
def test_the_drift_of_a_chain_needs_gamma_squared_times_width_below_one(chain, gamma, speaks):
    found = StationaryDrift(replace(chain, gamma=gamma)).check()
    assert (found.verdict is not Verdict.INAPPLICABLE) is speaks


# -- exponents ------------------------------------------------------------------------------------


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


def test_the_rank_that_is_compared_counts_directions_above_rounding():
    found = at_input(RankParticipation, torch.diag(torch.tensor([3.0, 2.0, 0.0, 0.0])))
    assert (found.rank.low, found.rank.value, found.rank.high) == (2, 2, 4)
    found = at_input(RankParticipation, torch.diag(torch.tensor([3.0, 2.0, 1.0, 0.0])))
    assert (found.rank.low, found.rank.value) == (3, 3)
