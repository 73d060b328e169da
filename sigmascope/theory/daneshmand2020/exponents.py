"""Lyapunov exponents of products of Gaussian layers in closed form, and when they collapse."""

import math
from dataclasses import dataclass
from typing import ClassVar, final

import numpy as np
import scipy
import torch

from sigmascope.linalg import collapse_depth, time_average
from sigmascope.networks.chains import LinearChain
from sigmascope.records import Assumption, Estimate, Sense
from sigmascope.theory.bounds import Bound

FEWEST_GAMMA = 1e-4  # below, the small-gamma law is exact to rounding and the sum is long
ROUNDINGS = 64.0
SUMMED = 1e-9  # relative error of the probabilities, summed


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


def top_exponent(width: int, gamma: float) -> Estimate:
    """The largest exponent of products of `I + gamma W` with Gaussian `W` of unit variance.

    `(ln 2γ² + E ψ(d/2 + J)) / 2` with `J` Poisson of mean `1/(2γ²)`: the squared length of a unit
    vector after one layer is a non-central χ².

    Args:
        width: `d`.
        gamma: Above 0; infinite for products of `W` alone.
    """
    if math.isinf(gamma):
        return product_exponents(width)[0]
    if gamma < FEWEST_GAMMA:
        return small_gamma_exponents(width, gamma)[0]
    mean = 1 / (2 * gamma * gamma)
    reach = 12 * math.sqrt(mean) + 60
    J = np.arange(max(0, math.floor(mean - reach)), math.ceil(mean + reach) + 1)
    chances = scipy.stats.poisson.pmf(J, mean)
    chances /= chances.sum()  # its rounding grows with the mean, and is nearly common
    # ln 2γ² = -ln(mean): they nearly cancel
    logs = scipy.special.digamma(width / 2 + J) - math.log(mean)
    value = float(chances @ logs) / 2
    gap = SUMMED * float(chances @ abs(logs))
    return Estimate(value, value - gap, value + gap, "exact")


def small_gamma_exponents(width: int, gamma: float) -> tuple[Estimate, ...]:
    """`γ² (d - 2i) / 2`, the exponents of products of `I + gamma W` to leading order.

    The interval is as wide as the next order, `γ⁴ d²`.
    """
    ranks = np.arange(1, width + 1)
    values = gamma**2 * (width - 2 * ranks) / 2
    reach = gamma**4 * width**2
    return tuple(Estimate(v, v - reach, v + reach, "small gamma") for v in values.tolist())


def exponent_sum(
    width: int, gamma: float, count: int, *, draws: int = 4096, generator: torch.Generator
) -> Estimate:
    """`μ_1 + ... + μ_k = E ln det(Gᵀ G) / 2`, `G` the first `k` columns of `I + gamma W`.

    Args:
        width: `d`.
        gamma: Finite.
        count: `k`.
        draws: Gaussian matrices averaged over.
        generator: Source of them.
    """
    G = torch.randn(draws, width, count, dtype=torch.float64, generator=generator)
    G = torch.eye(width, count, dtype=torch.float64) + gamma * G
    logs = torch.linalg.qr(G, mode="r")[1].diagonal(dim1=1, dim2=2).abs().log().sum(1)
    return time_average(logs[:, None])


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
        first, second = _pair(chain, layers)
        risk = first.risk + second.risk
        gap = Estimate(
            first.value - second.value,
            first.low - second.high,
            first.high - second.low,
            f"QR over {layers} layers",
            risk,
        )
        return cls("chain", gap, chain.width)


def _pair(chain: LinearChain, layers: int) -> tuple[Estimate, Estimate]:
    found = chain.exponents(layers, count=min(2, chain.width))
    return (found[0], found[-1])
