"""Theorems on the normalised chain: they hold, have teeth, decline, and are silent elsewhere."""

import math
from dataclasses import replace

import pytest
import torch

from sigmascope.networks.chains import BatchNormChain
from sigmascope.records import Estimate, Verdict
from sigmascope.theory import check_chain
from sigmascope.theory.catalogue import OF_CHAINS
from sigmascope.theory.daneshmand2020 import ChainSize, ChainSizeSharp, StationaryDrift

GOOD = {Verdict.HOLDS, Verdict.CONSISTENT}


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
    assert set(verdicts.values()) == {Verdict.HOLDS}


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
    """With α known exactly, a part in a million past the limit decides."""
    known = replace(small, regularity=Estimate.exactly(small.regularity.value))
    (bound,) = theorem.facts(known)
    limit = 1.0 if theorem.name == "chain-regularity" else bound.limit().value
    worse = 1 + 1e-6 if theorem.sense == "at most" else 1 - 1e-6
    for factor, verdict in ((worse, Verdict.VIOLATED), (1 / worse, Verdict.HOLDS)):
        moved = replace(known, **{FACTS[theorem.name]: Estimate.exactly(factor * limit)})
        (bound,) = theorem.facts(moved)
        assert bound.check().verdict == verdict


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
    found = run(16, 0.1, layers=4000, chains=32, weights="uniform")
    scaled = found.drift.value / (2 * 16**2)
    error = (found.drift.high - found.drift.low) / 4 / (2 * 16**2)
    assert abs(scaled + 0.013) <= 3 * math.hypot(error, 0.003)
