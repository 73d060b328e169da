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
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

import torch
from jaxtyping import Float, Float64
from scipy.special import gammaincinv
from torch import Tensor

from sigmascope.linalg.dense import EPS
from sigmascope.linalg.krylov.operator import Operator
from sigmascope.linalg.refusals import overflowing, require_matrix
from sigmascope.records import Spectrum

BLOCK, STEPS = 16, 12
RISK = 1e-6  # that the random block misses some leading direction more than is allowed for
WORKING = {torch.float64: torch.float64}  # all others are multiplied in single precision


@dataclass(frozen=True, slots=True)
class Leading:
    """The leading part of a singular value decomposition.

    Attributes:
        spectrum: The leading values with their intervals, descending.
        left: Left Ritz vectors, orthonormal up to the precision of the products.
        right: Right Ritz vectors.
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
        energy: `‖A‖_F²`, which bounds the later values from above; summed here if not given for a
            matrix, unknown for an operator.
        block: Vectors multiplied at a time. Values up to half as many have an upper end of their
            own; those behind it are bounded by the one before and by the energy left.
        steps: Products with `A`; one fewer with `Aᵀ`.
        vectors: For how many of the values vectors are wanted too; for all when omitted.
        generator: Source of the random block.

    Raises:
        TypeError: If a tensor `A` is not real floating point.
        ValueError: If a tensor `A` is empty, not a matrix or not finite.

    Source:
        Musco & Musco 2015, Theorem 10, with constants; Chen & Dongarra 2005 for the block.

    Cost: `2 steps - 1` products with blocks of `block` vectors.

    Example:
        >>> leading(torch.diag(torch.tensor([4.0, 3.0, 1.0]))).spectrum.sigma.round(decimals=4)
        tensor([4., 3., 1.], dtype=torch.float64)
    """
    if isinstance(A, Tensor):
        require_matrix(A, name="A")
        A = A.detach()
        energy = _energy(A) if energy is None else energy
    map_ = _Map.of(A)
    Q, Y = _space(map_, block, steps, generator)
    if not Y.isfinite().all():
        raise overflowing(A.shape)
    sigma, mixes = _ritz(Y, vectors != 0)
    kept = len(sigma) if count is None else min(count, len(sigma))
    whole = Q.shape[1] == min(A.shape)
    low, value, high = (end[:kept].cpu() for end in _ends(sigma, map_, block, steps, energy, whole))
    how = f"block krylov({block} x {steps}, {str(map_.dtype).removeprefix('torch.')})"
    found = Spectrum(value, (A.shape[0], A.shape[1]), how, low, high, 0.0 if whole else RISK)
    mixes = mixes[:, : kept if vectors is None else min(kept, vectors)].to(Q.dtype)
    outer = Y @ mixes
    outer = outer / torch.where(sigma > 0, sigma, 1)[: outer.shape[1]].to(outer)
    sides = (outer, Q @ mixes)
    return Leading(found, *(sides if not map_.turned else sides[::-1]))


@dataclass(frozen=True, slots=True)
class _Map:
    """A map `R^n -> R^m`, `m >= n`: the operator itself, or its transpose."""

    there: Callable[[Tensor], Tensor]
    back: Callable[[Tensor], Tensor]
    shape: tuple[int, int]
    turned: bool
    dtype: torch.dtype
    device: torch.device

    @classmethod
    def of(cls, A: Tensor | Operator) -> "_Map":
        m, n = A.shape
        like = A if isinstance(A, Tensor) else A.like
        dtype = WORKING.get(like.dtype, torch.float32)
        if isinstance(A, Tensor):
            W = A.to(dtype)
            # rows times a matrix that lies in rows: the other order reads memory across
            pair = (lambda x: W @ x), (lambda y: (y.mT @ W).mT)
        else:
            pair = (lambda x: A.apply(x).detach()), (lambda y: A.adjoint(y).detach())
        there, back = pair if m >= n else pair[::-1]
        return cls(there, back, (max(m, n), min(m, n)), m < n, dtype, like.device)


def _space(
    A: _Map, block: int, steps: int, generator: torch.Generator | None
) -> tuple[Tensor, Tensor]:
    """An orthonormal basis `Q` of the Krylov space on the smaller side, and `A Q`."""
    n = A.shape[1]
    block = min(block, n)
    source = A.device if generator is None else generator.device
    start = torch.randn(n, block, generator=generator, dtype=torch.float64, device=source)
    Q = torch.linalg.qr(start.to(A.device))[0].to(A.dtype)
    products = [A.there(Q)]
    while len(products) < steps and Q.shape[1] < n:
        fresh = _outside(A.back(products[-1]), Q)[:, : n - Q.shape[1]]
        Q = torch.cat([Q, fresh], dim=1)
        products.append(A.there(fresh))
    return Q, torch.cat(products, dim=1)


def _outside(Z: Float[Tensor, "n b"], Q: Float[Tensor, "n k"]) -> Float[Tensor, "n b"]:
    """An orthonormal basis of `Z` outside `Q`; where `Z` has nothing there, what rounding left."""
    Z = Z - Q @ (Q.mT @ Z)
    longest = torch.linalg.vector_norm(Z, dim=0).amax()
    Z = torch.linalg.qr(Z / longest if longest > 0 else torch.eye(*Z.shape).to(Z))[0]
    return torch.linalg.qr(Z - Q @ (Q.mT @ Z))[0]  # twice is enough (Parlett 1998, section 6.9)


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


def _ends(
    sigma: Float64[Tensor, " k"],
    A: _Map,
    block: int,
    steps: int,
    energy: float | None,
    whole: bool,
) -> tuple[Tensor, Tensor, Tensor]:
    """Low ends, values and high ends."""
    eps = max(torch.finfo(A.dtype).eps, EPS)
    slack = 16 * (math.sqrt(A.shape[0]) + math.sqrt(len(sigma))) * eps * sigma[0]
    low = (sigma - slack).clamp_min(0)
    if whole:
        return low, sigma, sigma + slack
    high = torch.full_like(sigma, math.inf)
    if energy is not None:
        taken = low.square().cumsum(0) - low.square()
        high = (energy * (1 + A.shape[0] * A.shape[1] * EPS) - taken).clamp_min(0).sqrt() + slack
    for i in range(min(block // 2, len(sigma))):
        short = missed(i + 1, size=A.shape[1], block=min(block, A.shape[1]), steps=steps)
        if short < 1:
            high[i] = min(high[i].item(), (sigma[i] + slack).item() / math.sqrt(1 - short))
    return low, sigma, torch.maximum(high.cummin(0).values, sigma)


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
        return 1 / math.sqrt(2 * float(gammaincinv(block / 2, risk)))
    d = block - i + 1
    return math.e * math.sqrt(block) / d * (1 / (math.sqrt(2 * math.pi * d) * risk)) ** (1 / d)


def _energy(A: Tensor) -> float:
    return sum(float(panel.double().square().sum()) for panel in A.split(2048))
