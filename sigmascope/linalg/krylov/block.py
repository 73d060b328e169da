"""Leading singular values and vectors of matrices too large to factorise, by block Krylov.

The idea: products of a random block with `A` and `Aᵀ`, orthonormalised against one another, span a
space in which the large singular values show early. The invariant: `Q` is orthonormal and `Y = A Q`
is kept as it was multiplied, so that the Ritz values are singular values of `Y` and no product is
spent on them at the end. A Ritz value never exceeds the singular value of its place (Cauchy); how
much it may fall short follows from how badly a random block can miss the leading directions, which
for a block of sixteen is hardly at all.

Source: Golub, Luk & Overton 1981; Musco & Musco 2015 for the analysis free of gaps, which is done
here with its constants.
"""

import math
from dataclasses import dataclass
from functools import cache

import scipy
import torch
from jaxtyping import Float, Float64
from torch import Tensor

from sigmascope.linalg.dense import SMALLEST
from sigmascope.linalg.krylov.maps import Map, space, tamed, times
from sigmascope.linalg.krylov.operator import Operator
from sigmascope.linalg.refusals import (
    not_finite_products,
    overflowing,
    require_between,
    require_matrix,
    require_steps,
)
from sigmascope.records import Spectrum

BLOCK, STEPS = 16, 12
RISK = 1e-6  # that the random block misses some leading direction more than is allowed for


@dataclass(frozen=True, slots=True)
class Leading:
    """The leading part of a singular value decomposition.

    Attributes:
        spectrum: The leading values with their intervals, descending.
        left: Left Ritz vectors, orthonormal up to the precision of the products; those of values
            that rounding alone made are any that the others leave room for.
        right: Right Ritz vectors, likewise.
    """

    spectrum: Spectrum
    left: Float[Tensor, "m k"]
    right: Float[Tensor, "n k"]


def leading(
    A: Float[Tensor, "m n"] | Operator,
    *,
    count: int | None = None,
    energy: float | None = None,
    block: int = BLOCK,
    steps: int = STEPS,
    vectors: int | None = None,
    generator: torch.Generator | None = None,
) -> Leading:
    """The leading singular values of `A`, both ends of each, and their vectors.

    Args:
        A: A finite matrix, or an operator. Matrices in float64 are multiplied in float64, all
            others in float32, as is said in `how`.
        count: How many are kept; all Ritz values that the space gives when omitted.
        energy: `‖A‖_F²` or more, which bounds the later values from above; summed here if not given
            for a matrix, unknown for an operator.
        block: Vectors multiplied at a time. Values up to half as many have an upper end of their
            own; those behind it are bounded by the one before and by the energy left.
        steps: Products with `A`; one fewer with `Aᵀ`.
        vectors: For how many of the values vectors are wanted too; for all when omitted.
        generator: Source of the random block.

    Raises:
        TypeError: If a tensor `A` is not real floating point.
        ValueError: If a tensor `A` is empty, not a matrix or not finite, an operator has products
            that are not finite, the largest value is beyond float64, or `block` or `steps` is
            below 1.

    Source:
        Musco & Musco 2015, Theorem 10, with constants; Chen & Dongarra 2005 for the block.

    Cost: `2 steps - 1` products with blocks of `block` vectors.

    Example:
        >>> leading(torch.diag(torch.tensor([4.0, 3.0, 1.0]))).spectrum.sigma.round(decimals=4)
        tensor([4., 3., 1.], dtype=torch.float64)
    """
    require_steps(steps)
    require_between(block, 1, math.inf, name="block", instead="Omit it for the default.")
    if isinstance(A, Tensor):
        require_matrix(A, name="A")
    map_ = Map.of(A)
    Q, Y = space(map_, block, steps, generator)
    if not Y.isfinite().all():
        raise not_finite_products(map_.asked)
    Y, power = tamed(Y)
    found, mixes = _ritz(Y, vectors != 0)
    kept = len(found) if count is None else min(count, len(found))
    ends = _ends(found, map_, power, block=block, steps=steps, energy=energy)
    low, sigma, high = (end[:kept].cpu() for end in ends)
    if not sigma.isfinite().all():
        raise overflowing(map_.asked)
    how = f"block krylov({block} x {steps}, {str(map_.dtype).removeprefix('torch.')})"
    risk = 0.0 if len(found) == map_.shape[1] else RISK
    mixes = mixes[:, : kept if vectors is None else min(kept, vectors)].to(Q.dtype)
    sides = (_outer(Y @ mixes), Q @ mixes)
    return Leading(
        Spectrum(sigma, map_.asked, how, low, high, risk),
        *(sides if not map_.turned else sides[::-1]),
    )


def _ritz(
    Y: Float[Tensor, "m k"], vectors: bool
) -> tuple[Float64[Tensor, " k"], Float64[Tensor, "k k"]]:
    """Singular values of the products and their right vectors, in float64.

    Products in single precision are no more precise than the Gram matrix of them in double.
    """
    if Y.dtype == torch.float64:
        _, sigma, Vt = torch.linalg.svd(torch.linalg.qr(Y, mode="r")[1])
        return sigma, Vt.mT
    wide = Y.double()
    gram = wide.mT @ wide
    lam, V = torch.linalg.eigh(gram) if vectors else (torch.linalg.eigvalsh(gram), gram)
    return lam.flip(0).clamp_min(0).sqrt(), V.flip(1)


def _outer(Z: Float[Tensor, "m k"]) -> Float[Tensor, "m k"]:
    """The columns of `Z` at right angles, of length one, also those that rounding alone made."""
    Q, R = torch.linalg.qr(Z)
    return Q * torch.where(R.diagonal() < 0, -1, 1).to(Q)


def _ends(
    sigma: Float64[Tensor, " k"],
    A: Map,
    power: int,
    *,
    block: int,
    steps: int,
    energy: float | None,
) -> tuple[Tensor, Tensor, Tensor]:
    """Low ends, values and high ends, of the values of `A` over a power of two."""
    share, lost = A.slack(len(sigma), power)
    slack = share * float(sigma[0]) + lost
    low, high = (sigma - slack).clamp_min(0), sigma + slack
    if len(sigma) < A.shape[1]:
        left = A.energy_over(energy, power)
        high = _above(sigma, low, slack, size=A.shape[1], block=block, steps=steps, energy=left)
    power += A.power
    low, sigma, high = (times(end, power) for end in (low, sigma, high))
    if power < 0:  # they may have been rounded among subnormal numbers
        low, high = (low - SMALLEST).clamp_min(0), high + SMALLEST
    return low, sigma, high


def _above(
    sigma: Float64[Tensor, " k"],
    low: Float64[Tensor, " k"],
    slack: float,
    *,
    size: int,
    block: int,
    steps: int,
    energy: float | None,
) -> Float64[Tensor, " k"]:
    """Upper ends of the leading ones of `size` values, by energy and by chance."""
    high = torch.full_like(sigma, math.inf)
    if energy is not None:
        taken = low.square().cumsum(0) - low.square()
        high = (energy - taken).clamp_min(0).sqrt() + slack
    block = min(block, size)
    tried = min(block // 2, len(sigma))
    for i in range(tried):
        short = missed(i + 1, size=size, block=block, steps=steps, risk=RISK / tried)
        if short < 1:
            high[i] = min(float(high[i]), (float(sigma[i]) + slack) / math.sqrt(1 - short))
    return torch.maximum(high.cummin(0).values, sigma)


@cache
def missed(i: int, *, size: int, block: int, steps: int, risk: float = RISK) -> float:
    """Share of the i-th eigenvalue of `AᵀA` by which its Ritz value may fall short.

    For any polynomial `p` of degree `steps - 1` the space holds `p(AᵀA) Ω C` with `C` chosen so
    that the leading i directions come out as they are. With `|p| <= 1` up to `(1 - ε) λᵢ` the
    shortfall is at most `ε + T / p(λᵢ)²`, `T` being how much more of the other directions than of
    the leading ones the random block can hold; Chebyshev's polynomial is the best.

    Args:
        i: Which, from 1.
        size: Smaller side of the matrix.
        block: Vectors of the random block, at least `i`.
        steps: Blocks in the space.
        risk: Chance that the bound fails.

    Returns:
        In (0, ∞); from 1 on the bound says nothing.
    """
    others = math.sqrt(size) + math.sqrt(block) + math.sqrt(2 * math.log(2 / risk))
    excess = (others * _inverse(i, block, risk / 2)) ** 2

    def short(eps: float) -> float:
        growth = (steps - 1) * math.acosh((1 + eps) / (1 - eps))
        return eps + excess / math.cosh(growth) ** 2 if growth < 300 else eps

    return min(short(math.exp(-0.05 * k)) for k in range(1, 200))


def _inverse(i: int, block: int, risk: float) -> float:
    """What the norm of the inverse of an `[i, block]` Gaussian exceeds with this chance at most."""
    if i == 1:  # the length of one vector: a chi variable, whose law is known
        return 1 / math.sqrt(2 * float(scipy.special.gammaincinv(block / 2, risk)))
    d = block - i + 1
    return math.e * math.sqrt(block) / d * (1 / (math.sqrt(2 * math.pi * d) * risk)) ** (1 / d)
