"""What Daneshmand et al. 2020 prove of a chain of random layers with batch normalisation.

The printed statements assume a unique invariant law. There is none: a batch of rank one stays of
rank one. They are checked for the law that is reached from inputs of full rank, by time averages.
"""

import math
from collections.abc import Iterator

from sigmascope.networks.chains import ChainStatistics
from sigmascope.records import Assumption, Estimate
from sigmascope.theory.bounds import row

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


def _size(chain: ChainStatistics, share: float) -> Estimate:
    """A share of `d^{3/2} / √(1 - α)`."""
    return Estimate.rounded(share * chain.width**1.5, ulps=2) * _regular(chain, -0.5)


def _root(chain: ChainStatistics, share: float) -> Estimate:
    """A share of `√((1 - α) d)`."""
    return Estimate.rounded(share * math.sqrt(chain.width), ulps=4) * _regular(chain, 0.5)


def _drift(chain: ChainStatistics) -> Estimate:
    e = chain.drift
    ends = (abs(e.low), abs(e.high))
    low = 0.0 if e.low <= 0 <= e.high else min(ends)
    return Estimate(abs(e.value), low, max(ends), e.how, e.risk)


def _of_second_order(chain: ChainStatistics) -> Iterator[Assumption]:
    yield from _hypotheses(chain)[:3]
    yield Assumption("gamma² times the width is below 1", chain.gamma**2 * chain.width < 1)


ChainRegularity = row(
    "chain-regularity",
    f"{SOURCE}, Definition 3 and Lemma 10",
    "α = E Tr(diag(M²)²) / E Tr(M³) ≤ 1",
    "The regularity of the law that the chain reaches is at most one, for every gamma.",
    measured=lambda c: c.regularity,
    limit=lambda c: Estimate.rounded(1.0, ulps=2**10),
)
ChainSize = row(
    "chain-size",
    f"{SOURCE}, Lemma 13, (50)",
    "E‖M‖² ≤ d^{3/2} / √(1 - α)",
    "Off-diagonal correlations stay small on average, as printed.",
    measured=lambda c: c.frobenius_sq,
    limit=lambda c: _size(c, 1),
    always=lambda c: (float(c.width), float(c.width) ** 2),  # of a correlation matrix
    assuming=_hypotheses,
)
ChainSizeSharp = row(
    "chain-size-sharp",
    f"after {SOURCE}, Lemma 13",
    "E‖M‖² ≤ d^{3/2} / (2 √(1 - α))",
    "The same with the factor two that the printed derivation gives away.",
    measured=lambda c: c.frobenius_sq,
    limit=lambda c: _size(c, 0.5),
    always=lambda c: (float(c.width), float(c.width) ** 2),  # of a correlation matrix
    assuming=_hypotheses,
)
ChainRank = row(
    "chain-soft-rank",
    f"{SOURCE}, Theorem 14 (Theorem 2)",
    "avg rank_τ(H) ≥ (1 - τ)² √((1 - α) d)",
    "The mean soft rank over depth is at least of the order of the square root of the width.",
    measured=lambda c: c.soft_rank,
    limit=lambda c: _root(c, (1 - c.tau) ** 2),
    always=lambda c: (1.0, float(c.width)),
    assuming=_hypotheses,
    sense="at least",
)
ChainParticipation = row(
    "chain-participation-ratio",
    f"after {SOURCE}, Lemma 13 and Theorem 14",
    "E r(H) ≥ 2 √((1 - α) d)",
    "The mean participation ratio, by Jensen's inequality from the sharper Lemma 13.",
    measured=lambda c: c.participation_ratio,
    limit=lambda c: _root(c, 2),
    always=lambda c: (1.0, float(c.width)),
    assuming=_hypotheses,
    sense="at least",
)
StationaryDrift = row(
    "stationary-drift",
    f"{SOURCE}, Lemma 7",
    "|E δ_F(M)| ≤ γ² d · 2 d²",
    """In the law that the chain reaches, first-order growth cancels up to the remainder.

    The remainder of Lemma 7 is of second order in `gamma`, for odd orders vanish by symmetry. At
    widths 8 to 64 it was found below `0.1 gamma² d` of `2 d²`; `gamma² d` is taken for its size.
    """,
    measured=_drift,
    limit=lambda c: Estimate.rounded(2 * c.gamma**2 * c.width**3, ulps=4),
    assuming=_of_second_order,
    speaks=lambda c: math.isfinite(c.gamma),
)
