"""What Daneshmand et al. 2020 prove of a chain of random layers with batch normalisation.

The printed statements assume a unique invariant law. There is none: a batch of rank one stays of
rank one. They are checked for the law that is reached from inputs of full rank, by time averages.
"""

import math
from dataclasses import dataclass
from typing import ClassVar, final

import numpy as np
import scipy
import torch
from jaxtyping import Float, Float64
from torch import Tensor

from sigmascope.core.guard import Refusal
from sigmascope.core.records import Assumption, Estimate, Sense
from sigmascope.linalg import collapse_depth, time_average
from sigmascope.linalg.dense import EPS
from sigmascope.theory.bounds import Bound, row
from sigmascope.theory.random_chains import (
    ChainStatistics,
    LinearChain,
    Weights,
    random_numbers,
    random_weights,
)

# ------------------------------------------------------------------------------
# Lyapunov exponents of products of Gaussian layers in closed form, and when they collapse.


ROUNDINGS = 64.0


def product_exponents(width: int, *, variance: float = 1.0) -> tuple[Estimate, ...]:
    """Exponents of `W_L ... W_1` with independent Gaussian entries, the largest first.

    `μ_i = (ln 2v + ψ((d - i + 1)/2)) / 2`.

    Args:
        width: `d`.
        variance: `v` of the entries.

    Source:
        Newman 1986; Daneshmand et al. 2020, Lemma 3.
    """
    freedom = (width - np.arange(width)) / 2
    values = (math.log(2 * variance) + scipy.special.digamma(freedom)) / 2
    return tuple(Estimate.rounded(float(v), ulps=ROUNDINGS) for v in values)


def small_gamma_exponents(width: int, gamma: float) -> tuple[Estimate, ...]:
    """`γ² (d - 2i) / 2`, the exponents of products of `I + gamma W` to leading order.

    The interval is as wide as the next order, `γ⁴ d²`.
    """
    ranks = np.arange(1, width + 1)
    values = gamma**2 * (width - 2 * ranks) / 2
    reach = gamma**4 * width**2
    return tuple(Estimate(v, v - reach, v + reach, "small gamma") for v in values.tolist())


@final
@dataclass(frozen=True, slots=True)
class RankOneProducts(Bound):
    """Without normalisation the second singular value dies next to the first.

    The printed statement, that the normalised product converges, is too strong: its left direction
    keeps moving. What tends to zero, exponentially, is `σ₂/σ₁`.
    """

    name: ClassVar[str] = "rank-one-products"
    source: ClassVar[str] = "Daneshmand et al. 2020, Lemma 3"
    statement: ClassVar[str] = "μ₁ - μ₂ > 0, so that σ₂/σ₁ ~ exp(-(μ₁ - μ₂) l)"
    sense: ClassVar[Sense] = "at least"

    site: str
    gap: Estimate
    width: int

    def assumptions(self) -> tuple[Assumption, ...]:
        return (Assumption("the width is 2 or more", self.width > 1),)

    def measured(self) -> Estimate:
        return self.gap

    def limit(self) -> Estimate:
        return Estimate.exactly(0.0)

    def collapse(self) -> Estimate:
        """Layers to numerical rank one, by the rule `σ₂ ≤ width * 1e-7 σ₁`."""
        return collapse_depth(self.gap, tolerance=min(self.width * 1e-7, 0.5))

    @classmethod
    def known(cls, width: int) -> "RankOneProducts":
        """The gap of products of Gaussian layers without skip connections, in closed form."""
        first, second = product_exponents(width)[:2]
        value = first.value - second.value
        reach = first.high - first.value + second.high - second.value
        gap = Estimate(value, value - reach, value + reach, "closed form")
        return cls("chain", gap, width)

    @classmethod
    def of(cls, chain: LinearChain, *, layers: int = 2000) -> "RankOneProducts":
        """Measure the first two exponents of a chain.

        Args:
            chain: Goes through the layers.
            layers: How many to average over.
        """
        found = chain.exponents(layers, count=min(2, chain.width))
        first, second = (found[0], found[-1])
        risk = first.risk + second.risk
        gap = Estimate(
            first.value - second.value,
            first.low - second.high,
            first.high - second.low,
            f"QR over {layers} layers",
            risk,
        )
        return cls("chain", gap, chain.width)


# ------------------------------------------------------------------------------
# What one random layer with normalisation does to `‖M‖²` on average.


UNIT = 1e-9  # how far the diagonal of M may be from 1
AT_ONCE = 2**22  # entries of random weights that are held together


def drift(M: Float[Tensor, "d d"]) -> Estimate:
    """`δ_F`: the growth of `‖M‖²` over one layer, per `gamma²`, to leading order.

    `2 d² - 2 ‖M‖² - 8 Tr M³ + 8 Tr(diag(M²)²)`.

    Args:
        M: Symmetric, with unit diagonal: `H Hᵀ / samples` after normalisation.

    Raises:
        Refusal: If the diagonal is not 1.

    Source:
        Daneshmand et al. 2020, Lemma 7; the remainder is of order `gamma² d²` of it.
    """
    M = M.double()
    require_unit_diagonal(M)
    d, square = len(M), M @ M
    terms = (
        2.0 * d * d,
        -2 * float(M.square().sum()),
        -8 * float((square * M).sum()),
        8 * float(square.diagonal().square().sum()),
    )
    gap = 64 * EPS * sum(abs(t) for t in terms)
    return Estimate(sum(terms), sum(terms) - gap, sum(terms) + gap, "exact")


def drift_of_spectrum(lam: Float[Tensor, " d"]) -> Estimate:
    """`δ_F` where all rows of `M` have the same norm, from its eigenvalues alone.

    `2 d² - 2 ‖λ‖₂² - 8 ‖λ‖₃³ + 8 ‖λ‖₂⁴ / d`.

    Args:
        lam: Eigenvalues of `M`, which add up to `d`.

    Source:
        Daneshmand et al. 2020, Prop. 8, with the square of (44) inside the trace.
    """
    lam = lam.double()
    d, square = len(lam), float(lam.square().sum())
    if not math.isclose(float(lam.sum()), d, rel_tol=UNIT):
        raise Refusal(
            f"`lam` must add up to their number {d}, got {float(lam.sum()):.6g}. They are the "
            "eigenvalues of a matrix with unit diagonal: divide them by their mean."
        )
    terms = (2.0 * d * d, -2 * square, -8 * float(lam.pow(3).sum()), 8 * square * square / d)
    gap = 64 * EPS * sum(abs(t) for t in terms)
    return Estimate(sum(terms), sum(terms) - gap, sum(terms) + gap, "exact")


def layer_growth(
    M: Float[Tensor, "d d"],
    gamma: float,
    *,
    weights: Weights = "gaussian",
    pairs: int = 20_000,
    generator: torch.Generator | None = None,
) -> Estimate:
    """`(E ‖M₊‖² - ‖M‖²) / gamma²` over one random layer, by sampling pairs `W` and `-W`.

    Args:
        M: As for `drift`.
        gamma: Finite, above 0.
        weights: Law of the weights.
        pairs: How many.
        generator: Source of the weights.
    """
    M = M.double()
    require_unit_diagonal(M)
    d = len(M)
    lam, U = torch.linalg.eigh(M)
    R = U * lam.clamp(min=0).sqrt()  # M = R Rᵀ
    before = float(M.square().sum())
    numbers = random_numbers(generator)
    means: list[Tensor] = []
    left = pairs
    while left > 0:
        count = min(left, max(1, AT_ONCE // (d * d)))
        W = random_weights((count, d, d), weights, numbers)
        both: list[Float64[Tensor, " n"]] = []
        for sign in (1, -1):
            H = R + sign * gamma * (W @ R)
            H = H / H.norm(dim=-1, keepdim=True)
            both.append((H @ H.mT).square().sum((1, 2)))
        means.append((both[0] + both[1]) / 2)
        left -= count
    grown = (torch.cat(means) - before) / gamma**2
    return time_average(grown[:, None])


def require_unit_diagonal(M: Tensor) -> None:
    """Raise unless `M` is square, finite, symmetric and has unit diagonal."""
    square = M.ndim == 2 and M.shape[0] == M.shape[1]
    if not square or not bool(M.isfinite().all()) or not torch.allclose(M, M.mT, atol=UNIT):
        raise Refusal(f"`M` must be a finite symmetric matrix, got shape {tuple(M.shape)}.")
    off = float((M.diagonal() - 1).abs().amax())
    if off > UNIT:
        raise Refusal(
            f"`M` must have unit diagonal, got one that is off by {off:.3g}. Divide every row of "
            "H by its root mean square first, as batch normalisation does."
        )


@final
@dataclass(frozen=True, slots=True)
class LayerDrift(Bound):
    """`δ_F` tells the growth of `‖M‖²` over one layer up to a remainder of second order in `gamma`.

    The printed remainder `O(gamma)` is not sharp: odd orders vanish by the symmetry of the weights.
    Its constant is not known; `d² max(|δ_F|, d²)` is above all that was found at widths 2 to 10.
    """

    name: ClassVar[str] = "layer-drift"
    source: ClassVar[str] = "Daneshmand et al. 2020, Lemma 7"
    statement: ClassVar[str] = "|(E‖M₊‖² - ‖M‖²)/γ² - δ_F(M)| ≤ γ² d² max(|δ_F|, d²)"
    sense: ClassVar[Sense] = "at most"

    site: str
    growth: Estimate
    drift: Estimate
    gamma: float
    width: int
    weights: Weights

    def assumptions(self) -> tuple[Assumption, ...]:
        return (
            Assumption(
                "weights are independent with a symmetric law", self.weights != "asymmetric"
            ),
            Assumption("gamma times the width is at most 1", self.gamma * self.width <= 1),
        )

    def measured(self) -> Estimate:
        g, d = self.growth, self.drift
        low, high = g.low - d.high, g.high - d.low
        least = 0.0 if low <= 0 <= high else min(abs(low), abs(high))
        return Estimate(abs(g.value - d.value), least, max(abs(low), abs(high)), g.how, g.risk)

    def limit(self) -> Estimate:
        size = max(abs(self.drift.value), float(self.width) ** 2)
        return Estimate.rounded(self.gamma**2 * self.width**2 * size, ulps=64)

    @classmethod
    def of(
        cls,
        M: Float[Tensor, "d d"],
        gamma: float,
        *,
        weights: Weights = "gaussian",
        generator: torch.Generator | None = None,
    ) -> "LayerDrift":
        """Sample one layer after the state `M`."""
        growth = layer_growth(M, gamma, weights=weights, generator=generator)
        return cls("one layer", growth, drift(M), gamma, len(M), weights)


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
    measured=lambda c: abs(c.drift),
    limit=lambda c: Estimate.rounded(2 * c.gamma**2 * c.width**3, ulps=4),
    assuming=lambda c: (
        *_hypotheses(c)[:3],
        Assumption("gamma² times the width is below 1", c.gamma**2 * c.width < 1),
    ),
    speaks=lambda c: math.isfinite(c.gamma),
)
