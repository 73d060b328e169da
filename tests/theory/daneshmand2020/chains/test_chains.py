"""Theorems on the normalised chain: they hold, have teeth, decline, and are silent elsewhere."""

import math
from dataclasses import replace

import pytest
import torch

from sigmascope.records import Estimate, Verdict
from sigmascope.theory import check_chain
from sigmascope.theory.catalogue import OF_CHAINS
from sigmascope.theory.daneshmand2020 import ChainSize, ChainSizeSharp, StationaryDrift
from sigmascope.theory.random_chains import BatchNormChain
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


def test_those_that_are_proved_for_small_gamma_say_so(small):
    for c in check_chain(small):
        if c.theorem == "chain-soft-rank":
            assert all(a.met for a in c.assumptions if "gamma is small" in a.says) == (
                0.07 * 4 <= 0.3
            )
    assert {c.verdict for c in check_chain(small)} <= GOOD


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


def test_the_sharper_bound_is_half_the_printed_one(small):
    printed, sharp = ChainSize(small).limit(), ChainSizeSharp(small).limit()
    assert sharp.value == pytest.approx(printed.value / 2)


def test_the_drift_is_silent_without_a_skip_connection():
    assert not list(StationaryDrift.facts(run(4, math.inf, layers=50)))


def test_the_drift_declines_where_gamma_is_large():
    (bound,) = StationaryDrift.facts(run(8, 0.5, layers=50))
    assert bound.check().verdict == Verdict.INAPPLICABLE


def test_stationary_drift_is_small_as_in_the_reference():
    """E δ_F / (2 d²) at gamma .1 and width 16: -.013 (.003)."""
    found = run(16, 0.1, layers=2000, chains=32, weights="uniform")
    scaled = found.drift.value / (2 * 16**2)
    error = (found.drift.high - found.drift.low) / 4 / (2 * 16**2)
    assert abs(scaled + 0.013) <= 3 * math.hypot(error, 0.003)


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
