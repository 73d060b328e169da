"""What one random layer with normalisation does to `‖M‖²` on average."""

import math
from dataclasses import dataclass
from typing import ClassVar, final

import torch
from jaxtyping import Float, Float64
from torch import Tensor

from sigmascope.linalg import time_average
from sigmascope.networks.chains import Weights, random_numbers, random_weights
from sigmascope.records import Assumption, Estimate, Sense
from sigmascope.theory.bounds import Bound

UNIT = 1e-9  # how far the diagonal of M may be from 1
AT_ONCE = 2**22  # entries of random weights that are held together


def drift(M: Float[Tensor, "d d"]) -> Estimate:
    """`δ_F`: the growth of `‖M‖²` over one layer, per `gamma²`, to leading order.

    `2 d² - 2 ‖M‖² - 8 Tr M³ + 8 Tr(diag(M²)²)`.

    Args:
        M: Symmetric, with unit diagonal: `H Hᵀ / samples` after normalisation.

    Raises:
        ValueError: If the diagonal is not 1.

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
    gap = 64 * 2.0**-52 * sum(abs(t) for t in terms)
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
        raise ValueError(
            f"`lam` must add up to their number {d}, got {float(lam.sum()):.6g}. They are the "
            "eigenvalues of a matrix with unit diagonal: divide them by their mean."
        )
    terms = (2.0 * d * d, -2 * square, -8 * float(lam.pow(3).sum()), 8 * square * square / d)
    gap = 64 * 2.0**-52 * sum(abs(t) for t in terms)
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
        both = [_size_after(R + sign * gamma * (W @ R)) for sign in (1, -1)]
        means.append((both[0] + both[1]) / 2)
        left -= count
    grown = (torch.cat(means) - before) / gamma**2
    return time_average(grown[:, None])


def _size_after(H: Float64[Tensor, "n d d"]) -> Float64[Tensor, " n"]:
    H = H / H.norm(dim=-1, keepdim=True)
    return (H @ H.mT).square().sum((1, 2))


def require_unit_diagonal(M: Tensor) -> None:
    """Raise unless `M` is square, finite, symmetric and has unit diagonal."""
    square = M.ndim == 2 and M.shape[0] == M.shape[1]
    if not square or not bool(M.isfinite().all()) or not torch.allclose(M, M.mT, atol=UNIT):
        raise ValueError(f"`M` must be a finite symmetric matrix, got shape {tuple(M.shape)}.")
    off = float((M.diagonal() - 1).abs().amax())
    if off > UNIT:
        raise ValueError(
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
