"""What Daneshmand et al. 2020 prove of a chain of random layers with batch normalisation.

The printed statements assume a unique invariant law. There is none: a batch of rank one stays of
rank one. They are checked for the law that is reached from inputs of full rank, by time averages.
"""

import math
from dataclasses import dataclass
from typing import ClassVar, final

from sigmascope.networks.chains import ChainStatistics
from sigmascope.records import Assumption, Estimate, Sense
from sigmascope.theory.bounds import OfChains

SMALL = 0.3  # gamma * width up to which the expansions in gamma were found to hold
SOURCE = "Daneshmand et al. 2020"


def _hypotheses(chain: ChainStatistics) -> tuple[Assumption, ...]:
    small = True if chain.gamma * chain.width <= SMALL else None
    return (
        Assumption("weights are independent with a symmetric law", chain.weights != "asymmetric"),
        Assumption(f"the inputs have full rank (rank {chain.rank})", chain.rank >= chain.width),
        Assumption(
            f"the chain is stationary, its start forgotten ({chain.burn_in} layers before)",
            True if chain.settled else None,
        ),
        Assumption("gamma is small (elsewhere it is found to hold, not proved)", small),
        Assumption("the regularity α is below 1", chain.regularity.high < 1 or None),
    )


def _regular(chain: ChainStatistics, power: float) -> Estimate:
    """`(1 - α) ** power`, with its interval."""
    ends = [
        max(1 - alpha, 0.0)
        for alpha in (chain.regularity.high, chain.regularity.value, chain.regularity.low)
    ]
    low, value, high = (e**power if e > 0 else (0.0 if power > 0 else math.inf) for e in ends)
    low, high = min(low, high), max(low, high)
    return Estimate(value, low, high, "jackknife", chain.regularity.risk)


@final
@dataclass(frozen=True, slots=True)
class ChainRegularity(OfChains):
    """The regularity of the law that the chain reaches is at most one, for every gamma."""

    name: ClassVar[str] = "chain-regularity"
    source: ClassVar[str] = f"{SOURCE}, Definition 3 and Lemma 10"
    statement: ClassVar[str] = "α = E Tr(diag(M²)²) / E Tr(M³) ≤ 1"
    sense: ClassVar[Sense] = "at most"

    def assumptions(self) -> tuple[Assumption, ...]:
        return ()

    def measured(self) -> Estimate:
        return self.chain.regularity

    def limit(self) -> Estimate:
        return Estimate.rounded(1.0, ulps=2**10)


@final
@dataclass(frozen=True, slots=True)
class ChainSize(OfChains):
    """Off-diagonal correlations stay small on average, as printed."""

    name: ClassVar[str] = "chain-size"
    source: ClassVar[str] = f"{SOURCE}, Lemma 13, (50)"
    statement: ClassVar[str] = "E‖M‖² ≤ d^{3/2} / √(1 - α)"
    sense: ClassVar[Sense] = "at most"

    def assumptions(self) -> tuple[Assumption, ...]:
        return _hypotheses(self.chain)

    def measured(self) -> Estimate:
        return self.chain.frobenius_sq

    def limit(self) -> Estimate:
        return Estimate.rounded(self.chain.width**1.5, ulps=2) * _regular(self.chain, -0.5)


@final
@dataclass(frozen=True, slots=True)
class ChainSizeSharp(OfChains):
    """The same with the factor two that the printed derivation gives away."""

    name: ClassVar[str] = "chain-size-sharp"
    source: ClassVar[str] = f"after {SOURCE}, Lemma 13"
    statement: ClassVar[str] = "E‖M‖² ≤ d^{3/2} / (2 √(1 - α))"
    sense: ClassVar[Sense] = "at most"

    def assumptions(self) -> tuple[Assumption, ...]:
        return _hypotheses(self.chain)

    def measured(self) -> Estimate:
        return self.chain.frobenius_sq

    def limit(self) -> Estimate:
        return Estimate.rounded(self.chain.width**1.5 / 2, ulps=2) * _regular(self.chain, -0.5)


@final
@dataclass(frozen=True, slots=True)
class ChainRank(OfChains):
    """The mean soft rank over depth is at least of the order of the square root of the width."""

    name: ClassVar[str] = "chain-soft-rank"
    source: ClassVar[str] = f"{SOURCE}, Theorem 14 (Theorem 2)"
    statement: ClassVar[str] = "avg rank_τ(H) ≥ (1 - τ)² √((1 - α) d)"
    sense: ClassVar[Sense] = "at least"

    def assumptions(self) -> tuple[Assumption, ...]:
        return _hypotheses(self.chain)

    def measured(self) -> Estimate:
        return self.chain.soft_rank

    def limit(self) -> Estimate:
        share = (1 - self.chain.tau) ** 2 * math.sqrt(self.chain.width)
        return Estimate.rounded(share, ulps=4) * _regular(self.chain, 0.5)


@final
@dataclass(frozen=True, slots=True)
class ChainParticipation(OfChains):
    """The mean participation ratio, by Jensen's inequality from the sharper Lemma 13."""

    name: ClassVar[str] = "chain-participation-ratio"
    source: ClassVar[str] = f"after {SOURCE}, Lemma 13 and Theorem 14"
    statement: ClassVar[str] = "E r(H) ≥ 2 √((1 - α) d)"
    sense: ClassVar[Sense] = "at least"

    def assumptions(self) -> tuple[Assumption, ...]:
        return _hypotheses(self.chain)

    def measured(self) -> Estimate:
        return self.chain.participation_ratio

    def limit(self) -> Estimate:
        return Estimate.rounded(2 * math.sqrt(self.chain.width), ulps=4) * _regular(self.chain, 0.5)


@final
@dataclass(frozen=True, slots=True)
class StationaryDrift(OfChains):
    """In the law that the chain reaches, first-order growth cancels up to the remainder.

    The remainder of Lemma 7 is of second order in `gamma`, for odd orders vanish by symmetry. At
    widths 8 to 64 it was found below `0.1 gamma² d` of `2 d²`; `gamma² d` is taken for its size.
    """

    name: ClassVar[str] = "stationary-drift"
    source: ClassVar[str] = f"{SOURCE}, Lemma 7"
    statement: ClassVar[str] = "|E δ_F(M)| ≤ γ² d · 2 d²"
    sense: ClassVar[Sense] = "at most"

    def assumptions(self) -> tuple[Assumption, ...]:
        small = self.chain.gamma**2 * self.chain.width < 1
        short = Assumption("gamma² times the width is below 1", small)
        return (*_hypotheses(self.chain)[:3], short)

    def measured(self) -> Estimate:
        e = self.chain.drift
        ends = (abs(e.low), abs(e.high))
        low = 0.0 if e.low <= 0 <= e.high else min(ends)
        return Estimate(abs(e.value), low, max(ends), e.how, e.risk)

    def limit(self) -> Estimate:
        return Estimate.rounded(2 * self.chain.gamma**2 * self.chain.width**3, ulps=4)

    @classmethod
    def speaks(cls, chain: ChainStatistics) -> bool:
        return math.isfinite(chain.gamma)
