import math
from dataclasses import replace

import pytest
import torch

from sigmascope.core.records import Estimate, Verdict
from sigmascope.theory import check_chain
from sigmascope.theory.catalogue import OF_CHAINS
from sigmascope.theory.daneshmand2020 import (
    ChainSize,
    LayerDrift,
    RankOneProducts,
    StationaryDrift,
    drift,
    drift_of_spectrum,
    layer_growth,
    product_exponents,
    small_gamma_exponents,
)
from sigmascope.theory.random_chains import BatchNormChain, LinearChain
from tests.theory.daneshmand2020.enumerated import (
    all_weights,
    correlation,
    moments,
    next_state,
    root,
)
from tests.theory.daneshmand2020.told import PART, told

GOOD = {Verdict.HOLDS, Verdict.CONSISTENT, Verdict.VACUOUS}


def run(width=8, gamma=0.5, layers=600, chains=16, **options):
    g = torch.Generator().manual_seed(width)
    chain = BatchNormChain(width, gamma, chains=chains, generator=g, **options)
    return chain.run(layers)


@pytest.fixture(scope="module")
def small():
    return run(4, 0.07, layers=1500)


@pytest.mark.parametrize("gamma", [0.1, 0.5, math.inf])
@pytest.mark.parametrize("width", [4, 16])
@pytest.mark.parametrize("weights", ["gaussian", "uniform"])
def test_all_hold(width, gamma, weights):
    verdicts = {c.theorem: c.verdict for c in check_chain(run(width, gamma, weights=weights))}
    assert verdicts.pop("stationary-drift", None) != Verdict.VIOLATED
    assert len(verdicts) == 5
    weak = {n for n, v in verdicts.items() if v is Verdict.VACUOUS}
    assert "chain-regularity" not in weak
    assert width < 16 or weak <= {"chain-soft-rank", "chain-size"}  # narrow, all others may be
    assert {v for n, v in verdicts.items() if n not in weak} == {Verdict.HOLDS}


FACTS = {
    "chain-soft-rank": "soft_rank",
    "chain-participation-ratio": "participation_ratio",
    "chain-size": "frobenius_sq",
    "chain-size-sharp": "frobenius_sq",
    "chain-regularity": "regularity",
    "stationary-drift": "drift",
}


@pytest.mark.parametrize("theorem", OF_CHAINS, ids=lambda t: t.name)
def test_each_has_teeth(small, theorem):
    """With α known exactly, a part in a million past the limit decides.

    At a width where every limit says something.
    """
    wide = {"width": 100, "rank": 100, "gamma": 1e-3}
    known = replace(small, regularity=Estimate.exactly(0.5), **wide)
    (bound,) = theorem.facts(known)
    limit = 1.0 if theorem.name == "chain-regularity" else bound.limit().value
    worse = 1 + 1e-6 if theorem.sense == "at most" else 1 - 1e-6
    for factor, verdict in ((worse, Verdict.VIOLATED), (1 / worse, Verdict.HOLDS)):
        moved = replace(known, **{FACTS[theorem.name]: Estimate.exactly(factor * limit)})
        (bound,) = theorem.facts(moved)
        assert bound.check().verdict == verdict


def test_a_limit_that_every_chain_keeps_is_vacuous(small):
    """`M` is a correlation matrix: `d ≤ ‖M‖² ≤ d²`, and a direction counts at any width."""
    for alpha, vacuous in (
        (0.5, {"chain-soft-rank"}),
        (0.74, {"chain-soft-rank"}),
        (0.76, {"chain-soft-rank", "chain-size"}),
        (0.99, {"chain-soft-rank", "chain-participation-ratio", "chain-size", "chain-size-sharp"}),
    ):
        known = replace(small, regularity=Estimate.exactly(alpha))
        found = {c.theorem for c in check_chain(known) if c.verdict is Verdict.VACUOUS}
        assert found == vacuous


def test_limits_are_those_of_the_theory(small):
    """Lemma 13, Theorem 14 and what follows from them, for α = 3/4 and width 4."""
    known = replace(small, regularity=Estimate.exactly(0.75), gamma=0.05)
    limits = {t.name: next(t.facts(known)).limit().value for t in OF_CHAINS}
    assert limits == pytest.approx(
        {
            "chain-soft-rank": 0.25 * 1.0,  # (1 - τ)² √((1 - α) d), τ = 1/2
            "chain-participation-ratio": 2.0,  # 2 √((1 - α) d)
            "chain-size": 16.0,  # d^{3/2} / √(1 - α)
            "chain-size-sharp": 8.0,
            "chain-regularity": 1.0,
            "stationary-drift": 2 * 0.05**2 * 64,
        }
    )


@pytest.mark.parametrize("theorem", [t for t in OF_CHAINS if t.name != "chain-regularity"])
def test_a_chain_that_still_remembers_its_start_contradicts_nothing(small, theorem):
    wrong = Estimate.exactly(1e-3 if theorem.sense == "at least" else 1e3)
    early = replace(small, settled=False, **{FACTS[theorem.name]: wrong})
    (bound,) = theorem.facts(early)
    found = bound.check()
    assert found.verdict == Verdict.CONSISTENT
    assert "stationary" in found.note


@pytest.mark.parametrize(
    "theorem", [t for t in OF_CHAINS if t.name != "chain-regularity"], ids=lambda t: t.name
)
@pytest.mark.parametrize("change", [{"weights": "asymmetric"}, {"rank": 3}])
def test_each_declines_without_its_assumptions(small, theorem, change):
    (bound,) = theorem.facts(replace(small, **change))
    assert bound.check().verdict == Verdict.INAPPLICABLE


def test_the_drift_is_silent_without_a_skip_connection():
    assert not list(StationaryDrift.facts(run(4, math.inf, layers=50)))


def test_stationary_drift_is_small_as_in_the_reference():
    """E δ_F / (2 d²) at gamma .1 and width 16: -.013 (.003)."""
    found = run(16, 0.1, layers=2000, chains=32, weights="uniform")
    scaled = found.drift.value / (2 * 16**2)
    error = (found.drift.high - found.drift.low) / 4 / (2 * 16**2)
    assert abs(scaled + 0.013) <= 3 * math.hypot(error, 0.003)


@pytest.mark.parametrize(
    ("alpha", "low", "high"),
    [((0.75, 0.64, 0.84), 8 / 0.6, 8 / 0.4), ((0.9, 0.5, 1.1), 8 / 0.5**0.5, math.inf)],
)
def test_an_interval_of_regularity_passes_to_the_limits(small, alpha, low, high):
    known = replace(small, regularity=Estimate(*alpha, "told", 0.05))
    limit = ChainSize(known).limit()
    assert (limit.low, limit.value, limit.high) == pytest.approx(
        (low, 8 / math.sqrt(1 - alpha[0]), high)
    )
    assert limit.risk == 0.05


def test_the_smallest_drift_within_an_interval(small):
    for ends, low in (((-3.0, 1.0, 2.0), 0.0), ((-3.0, -2.0, -1.0), 1.0), ((1.0, 2.0, 3.0), 1.0)):
        bound = StationaryDrift(replace(small, drift=Estimate(ends[1], ends[0], ends[2], "told")))
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
def test_hypotheses_of_chains_that_cannot_be_decided(small, change, says):
    good = replace(small, gamma=0.3 / 4, settled=True, regularity=told(0.75))
    assert all(a.met for a in ChainSize(good).assumptions())
    unknown = [a.says for a in ChainSize(replace(good, **change)).assumptions() if a.met is None]
    assert len(unknown) == 1
    assert says in unknown[0]


@pytest.mark.parametrize(("gamma", "speaks"), [(0.5 * (1 - PART), True), (0.5, False)])
def test_the_drift_of_a_chain_needs_gamma_squared_times_width_below_one(small, gamma, speaks):
    found = StationaryDrift(replace(small, gamma=gamma)).check()
    assert (found.verdict is not Verdict.INAPPLICABLE) is speaks


def over_all_signs(M, gamma):
    """(E ‖M₊‖² - ‖M‖²) / gamma² over every Rademacher matrix."""
    after = moments(next_state(root(M), all_weights(len(M)), gamma))
    return float((after.square().sum((1, 2)) - M.square().sum()).mean()) / gamma**2


@pytest.mark.parametrize("d", [2, 3])
def test_the_remainder_is_of_second_order(d):
    M = correlation(d, seed=d)
    exact = drift(M).value
    errors = [(over_all_signs(M, gamma) - exact) / gamma**2 for gamma in (0.04, 0.02, 0.01)]
    assert errors[1] == pytest.approx(errors[2], rel=0.02)  # a constant, so no term of first order
    assert errors[0] == pytest.approx(errors[2], rel=0.1)


def test_example_9_with_the_factor_it_lacks():
    """M = e I + (1 - e) 11ᵀ: δ_F = -4 e d (d - 1)(2d - 1) to first order in e."""
    d, e = 4, 1e-5
    M = e * torch.eye(d, dtype=torch.float64) + (1 - e)
    assert drift(M).value == pytest.approx(-4 * e * d * (d - 1) * (2 * d - 1), rel=1e-3)


def test_growth_of_example_9_by_enumeration():
    """At d = 4 and gamma .02, gamma² times the ratio is -337.4 gamma⁴."""
    gamma = 0.02
    M = gamma**2 * torch.eye(4, dtype=torch.float64) + (1 - gamma**2)
    grown = over_all_signs(M, gamma) * gamma**2
    assert grown / gamma**4 == pytest.approx(-337.4, abs=0.5)


def test_circulant_matrices_need_their_eigenvalues_only():
    for seed in range(20):
        g = torch.Generator().manual_seed(seed)
        c = torch.randn(7, generator=g, dtype=torch.float64)
        C = torch.stack([c.roll(i) for i in range(7)])
        M = C @ C.mT / c.square().sum()
        direct, short = drift(M), drift_of_spectrum(torch.linalg.eigvalsh(M))
        assert short.value == pytest.approx(direct.value, rel=1e-11, abs=1e-10)


@pytest.mark.parametrize("weights", ["gaussian", "uniform"])
def test_sampled_layers_grow_by_the_drift(weights):
    M, g = correlation(6, samples=6), torch.Generator().manual_seed(1)
    theorem = LayerDrift.of(M, 0.01, weights=weights, generator=g)
    assert theorem.check().verdict in {Verdict.HOLDS, Verdict.CONSISTENT}
    error = theorem.growth.high - theorem.growth.value
    assert abs(theorem.growth.value - theorem.drift.value) <= 2 * error + 0.05 * abs(
        theorem.drift.value
    )


def test_what_is_not_normalised_is_refused(as_users_see_it):
    with pytest.raises(ValueError, match="must have unit diagonal"):
        drift(2 * torch.eye(3, dtype=torch.float64))
    with pytest.raises(ValueError, match="finite symmetric"):
        layer_growth(torch.ones(2, 3, dtype=torch.float64), 0.1)
    with pytest.raises(ValueError, match="add up to their number"):
        drift_of_spectrum(torch.ones(3, dtype=torch.float64) * 2)


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


def linear_chain(width, gamma=math.inf, chains=16, **options):
    g = torch.Generator().manual_seed(width)
    return LinearChain(width, gamma, chains=chains, generator=g, **options)


@pytest.mark.parametrize(("width", "first"), [(8, 0.9746), (16, 1.3544), (32, 1.7171)])
def test_first_exponent_of_products_and_the_gap_of_wide_ones(width, first):
    found = product_exponents(width)
    assert found[0].value == pytest.approx(first, abs=5e-5)
    assert width < 32 or found[0].value - found[1].value == pytest.approx(0.0164, abs=5e-5)


def test_all_exponents_of_products_agree_with_qr():
    found = linear_chain(6).exponents(3000)
    for e, exact in zip(found, product_exponents(6), strict=True):
        assert abs(e.value - exact.value) <= 2 * (e.high - e.low)


def test_singular_values_of_products_grow_at_their_exponents():
    """Footnote 6, from depth 50 to 200: `σ₁` multiplied out, `σ₂` by the determinant."""
    g, chains = torch.Generator().manual_seed(0), 1000
    B, logs, found = torch.eye(2, dtype=torch.float64).repeat(chains, 1, 1), torch.zeros(2), []
    for layer in range(1, 201):
        W = torch.randn(chains, 2, 2, generator=g, dtype=torch.float64)
        B = W @ B
        size = torch.linalg.matrix_norm(B)[:, None, None]
        B, total = B / size, torch.linalg.det(W).abs().log()
        logs = logs + torch.stack([size[:, 0, 0].log(), total], dim=1)
        if layer in (50, 200):
            first = logs[:, 0] + torch.linalg.svdvals(B)[:, 0].log()
            found.append(torch.stack([first, logs[:, 1] - first]))
    rates = (found[1] - found[0]) / 150
    for rate, exact in zip(rates, product_exponents(2), strict=True):
        error = float(rate.std()) / math.sqrt(chains)
        assert abs(float(rate.mean()) - exact.value) < 3.5 * error < 0.02


def test_small_gamma_law_by_hand_and_against_qr():
    """`γ² (d - 2i) / 2`, known to `γ⁴ d²`: μ/γ² = 2, 1, 0, -1, -2, -3 at width 6."""
    found = small_gamma_exponents(4, 0.1)
    assert [e.value for e in found] == pytest.approx([0.01, 0.0, -0.01, -0.02])
    assert found[0].high - found[0].value == pytest.approx(0.0016)
    assert found[0].value - found[0].low == pytest.approx(0.0016)
    measured = linear_chain(6, 0.05, chains=64).exponents(1500)
    for e, law in zip(measured, small_gamma_exponents(6, 0.05), strict=True):
        assert abs(e.value - law.value) <= 2 * (e.high - e.low) + (law.high - law.value)


@pytest.mark.parametrize("weights", ["gaussian", "uniform"])
@pytest.mark.parametrize("gamma", [0.5, math.inf])
def test_products_become_rank_one(weights, gamma):
    theorem = RankOneProducts.of(linear_chain(8, gamma, weights=weights), layers=800)
    assert theorem.check().verdict == Verdict.HOLDS


def test_rank_one_products_predict_the_depth_of_collapse():
    """The layers at which σ₂ has fallen below 8e-7 σ₁, over 64 chains."""
    theorem = RankOneProducts.of(linear_chain(8), layers=2000)
    running = linear_chain(8, chains=64)
    depth = torch.zeros(64)
    for layer in range(1, 900):
        running.step()
        sigma = running.singular_values()
        depth[(sigma[:, 1] > 8e-7 * sigma[:, 0])] = layer
    mean, error = float(depth.mean()), float(depth.std()) / 8
    predicted = theorem.collapse()
    assert abs(mean - predicted.value) < 3 * error + predicted.high - predicted.low


def test_rank_one_products_decline_with_one_unit():
    assert RankOneProducts.of(linear_chain(1), layers=64).check().verdict == Verdict.INAPPLICABLE


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
