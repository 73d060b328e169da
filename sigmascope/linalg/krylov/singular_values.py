"""Leading singular values and vectors of maps known by their products."""

import math
from dataclasses import dataclass
from functools import cache

import scipy
import torch
from jaxtyping import Float, Float64
from torch import Tensor

from sigmascope.core.records import Brief, Spectrum
from sigmascope.linalg.dense import EPS, SMALLEST, tamed, times
from sigmascope.linalg.krylov.operators import WORKING, Map, Operator, space
from sigmascope.linalg.refusals import (
    not_finite_products,
    overflowing,
    require_between,
    require_matrix,
    require_steps,
)

# ------------------------------------------------------------------------------
# Leading singular values and vectors of matrices too large to factorise, by block Krylov.
#
# The idea: products of a random block with `A` and `Aᵀ`, orthonormalised against one another, span
# a space in which the large singular values show early. The invariant: `Q` is orthonormal and `Y =
# A Q` is kept as it was multiplied, so that the Ritz values are singular values of `Y` and no
# product is spent on them at the end. A Ritz value never exceeds the singular value of its place
# (Cauchy); how much it may fall short follows from how badly a random block can miss the leading
# directions, which for a block of sixteen is hardly at all.
#
# Source: Golub, Luk & Overton 1981; Musco & Musco 2015 for the analysis free of gaps, which is done
# here with its constants.


BLOCK, STEPS = 16, 12
RISK = 1e-6  # that the random block misses some leading direction more than is allowed for


@dataclass(frozen=True, slots=True, repr=False)
class Leading(Brief):
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
        Refusal: If a tensor `A` is empty, not a matrix or not finite, an operator has products
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
    # Ritz values and their right vectors, in float64; products in single precision are no more
    # precise than the Gram matrix of them in double
    if Y.dtype == torch.float64:
        _, found, Vt = torch.linalg.svd(torch.linalg.qr(Y, mode="r")[1])
        mixes = Vt.mT
    else:
        wide = Y.double()
        gram = wide.mT @ wide
        lam, V = (torch.linalg.eigvalsh(gram), gram) if vectors == 0 else torch.linalg.eigh(gram)
        found, mixes = lam.flip(0).clamp_min(0).sqrt(), V.flip(1)
    kept = len(found) if count is None else min(count, len(found))
    # low ends and high ends, first of the values of `A` over a power of two
    share, lost = map_.slack(len(found), power)
    slack = share * float(found[0]) + lost
    low, high = (found - slack).clamp_min(0), found + slack
    if len(found) < map_.shape[1]:
        # by energy and by chance
        left, size = map_.energy_over(energy, power), map_.shape[1]
        high = torch.full_like(found, math.inf)
        if left is not None:
            taken = low.square().cumsum(0) - low.square()
            high = (left - taken).clamp_min(0).sqrt() + slack
        drawn = min(block, size)
        tried = min(drawn // 2, len(found))
        for i in range(tried):
            short = missed(i + 1, size=size, block=drawn, steps=steps, risk=RISK / tried)
            if short < 1:
                high[i] = min(float(high[i]), (float(found[i]) + slack) / math.sqrt(1 - short))
        high = torch.maximum(high.cummin(0).values, found)
    power += map_.power
    low, sigma, high = (times(end, power) for end in (low, found, high))
    if power < 0:  # they may have been rounded among subnormal numbers
        low, high = (low - SMALLEST).clamp_min(0), high + SMALLEST
    low, sigma, high = (end[:kept].cpu() for end in (low, sigma, high))
    if not sigma.isfinite().all():
        raise overflowing(map_.asked)
    how = f"block krylov({block} x {steps}, {str(map_.dtype).removeprefix('torch.')})"
    risk = 0.0 if len(found) == map_.shape[1] else RISK
    mixes = mixes[:, : kept if vectors is None else min(kept, vectors)].to(Q.dtype)
    # at right angles, of length one, also those that rounding alone made
    outer, R = torch.linalg.qr(Y @ mixes)
    outer = outer * torch.where(R.diagonal() < 0, -1, 1).to(outer)
    sides = (outer, Q @ mixes)
    return Leading(
        Spectrum(sigma, map_.asked, how, low, high, risk),
        *(sides if not map_.turned else sides[::-1]),
    )


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
    # what the norm of the inverse of an `[i, block]` Gaussian exceeds with half the risk at most
    if i == 1:  # the length of one vector: a chi variable, whose law is known
        inverse = 1 / math.sqrt(2 * float(scipy.special.gammaincinv(block / 2, risk / 2)))
    else:
        d, chance = block - i + 1, risk / 2
        tail = (1 / (math.sqrt(2 * math.pi * d) * chance)) ** (1 / d)
        inverse = math.e * math.sqrt(block) / d * tail
    excess = (others * inverse) ** 2

    def short(eps: float) -> float:
        growth = (steps - 1) * math.acosh((1 + eps) / (1 - eps))
        return eps + excess / math.cosh(growth) ** 2 if growth < 300 else eps

    return min(short(math.exp(-0.05 * k)) for k in range(1, 200))


# ------------------------------------------------------------------------------
# Golub-Kahan bidiagonalisation: leading singular values from products alone.
#
# The idea: products of a matrix and its transpose with one random vector build two orthonormal
# bases between which the matrix is bidiagonal, and the singular values of that small matrix
# approach the largest ones. The invariant: both bases are orthogonalised fully, so that Ritz values
# are those of a compression and never exceed the true ones; rounding is all that low ends lose.
# What an unfinished run may have missed is bounded from above by chance over the start, and by the
# energy that is left.
#
# Source: Golub & Kahan 1965; Kuczyński & Woźniakowski 1992, Theorem 4.2.


TINY, HUGE = 1e-140, 1e140  # lengths of which squares neither underflow nor overflow
PANEL = 2**22  # entries of a tensor converted to float64 at a time

Ends = tuple[Float64[Tensor, " k"], Float64[Tensor, " k"], Float64[Tensor, " k"], float]


def golub_kahan(
    A: Float[Tensor, "m n"] | Operator, *, steps: int, generator: torch.Generator | None
) -> Ends:
    """The leading Ritz values of `steps` products, their low and high ends, and the risk.

    Low ends are the Ritz values less rounding: those of a compression never exceed those of the
    matrix (Cauchy interlacing). High ends are rounding alone once the smaller space is exhausted;
    before that, by chance for the first, and for a tensor the energy `‖A‖_F² - Σ_{j<i} θⱼ²` that
    the leading values leave for the i-th.

    Source:
        Golub & Kahan 1965; Kuczyński & Woźniakowski 1992, Theorem 4.2.
    """
    operator = _in_float64(A.detach()) if isinstance(A, Tensor) else A
    # `B / top`, for `A V = U B` with `U`, `V` orthonormal and `B` upper bidiagonal
    m, n = operator.shape
    there, back = operator.apply, operator.adjoint
    there, back = (there, back) if m >= n else (back, there)
    U, V = (Basis(side, steps, operator, generator) for side in (max(m, n), min(m, n)))
    B = torch.zeros(steps, steps, dtype=torch.float64)
    V.restart()
    for j in range(steps):
        B[j, j] = U.extend(there(V.last()))
        if j + 1 < steps:
            B[j, j + 1] = V.extend(back(U.last()))
    top = B.abs().amax().item()
    top = top if top > 0 else 1.0
    theta = B / top
    if not theta.isfinite().all():
        raise overflowing(operator.shape) if isinstance(A, Tensor) else not_finite_products(A.shape)
    theta = torch.linalg.svdvals(theta)
    info = torch.finfo(operator.like.dtype)
    eps = max(info.eps, EPS)
    slack = 16 * (math.sqrt(max(operator.shape)) + math.sqrt(steps)) * eps * theta[0]
    lost = 8 * max(operator.shape) * max(info.tiny * info.eps, SMALLEST)
    slack = slack + lost / top  # products that are subnormal
    low = (theta - slack).clamp_min(0) * top
    if steps == min(operator.shape):
        return theta * top, low, (theta + slack) * top, 0.0
    high = torch.full_like(theta, math.inf)
    # from a uniformly random start, `(λ₁ - θ₁) / λ₁ > ε` for the squares with probability at most
    # `1.648 √dimension exp(-√ε (2 steps - 1))`
    chance = math.log(1.648 * math.sqrt(min(operator.shape)) / RISK)
    short = (chance / (2 * steps - 1)) ** 2
    if short < 1:
        high[0] = (theta[0].item() + slack.item()) / math.sqrt(1 - short)
    risk = RISK if high[0].isfinite() else 0.0
    if isinstance(A, Tensor):
        sure = theta - slack
        total = torch.linalg.vector_norm(A.detach().double() / top).cpu().square()
        taken = sure.clamp_min(0).square().cumsum(0) - sure.clamp_min(0).square()
        high = torch.minimum(
            high, (total * (1 + A.numel() * EPS) - taken).clamp_min(0).sqrt() + slack
        )
    high = torch.maximum(high.cummin(0).values, theta)
    return theta * top, low, high * top, risk


def _in_float64(A: Float[Tensor, "m n"]) -> Operator:
    """`A` in float64, converted a panel at a time: this route is for matrices too large to copy."""
    rows = max(1, PANEL // A.shape[1])
    panels = A.split(rows)
    return Operator(
        (A.shape[0], A.shape[1]),
        lambda x: torch.cat([P.double() @ x for P in panels]),
        lambda y: sum(
            (P.double().mT @ part for P, part in zip(panels, y.split(rows), strict=True)),
            start=y.new_zeros(A.shape[1], y.shape[1]),
        ),
        A.new_empty(0, dtype=torch.float64),
    )


NEAR = 2  # vectors that a symmetric map's product with the last one mostly lies along
LITTLE = 0.1  # of a vector: less than this, taken out, leaves a tenth of what is not orthogonal yet


class Basis:
    """An orthonormal basis that grows by one vector at a time."""

    def __init__(
        self, size: int, steps: int, A: Operator, generator: torch.Generator | None
    ) -> None:
        # one vector after the other: products with the first few then read memory in order
        self.rows = torch.empty(steps, size, dtype=torch.float64, device=A.like.device)
        self.count = 0
        self.dtype = A.like.dtype
        self.tolerance = 4 * math.sqrt(size) * max(torch.finfo(self.dtype).eps, EPS)
        self.largest = 0.0
        self.generator = generator

    def last(self) -> Tensor:
        """The newest vector, in the precision of the operator."""
        return self.rows[self.count - 1][:, None].to(self.dtype)

    def extend(self, w: Tensor) -> float:
        """Add the direction of `w` outside the basis; its length, or 0 and a random direction."""
        length, _ = self.project(w)
        return length

    def project(self, w: Tensor, *, grow: bool = True) -> tuple[float, Float64[Tensor, " k"]]:
        """The same, with the components of `w` along the vectors there were before.

        Args:
            w: A column.
            grow: Whether to add the direction.
        """
        w = w.detach().double()[:, 0]
        length, top = torch.linalg.vector_norm(w).item(), 1.0
        if not TINY < length < HUGE:  # its square is not a number that can be trusted
            top = w.abs().amax().item() or 1.0
            w = w / top
            length = top * torch.linalg.vector_norm(w).item()
        self.largest = max(self.largest, length)
        fresh, inside = self._outside(w)
        norm = torch.linalg.vector_norm(fresh).item()
        gone = norm * top <= self.tolerance * self.largest
        if grow and gone:
            self.restart()
        elif grow:
            self._append(fresh / norm)
        return 0.0 if gone else norm * top, top * inside

    def restart(self, towards: Float64[Tensor, " n"] | None = None) -> float:
        """Add a random direction outside the basis, or half way between one and a given one.

        Returns:
            How much of it is random: the length of the random unit vector in it.
        """
        device = self.rows.device if self.generator is None else self.generator.device
        size = (self.rows.shape[1], 1)
        w = torch.randn(size, generator=self.generator, dtype=torch.float64, device=device)
        fresh, _ = self._outside(w[:, 0].to(self.rows.device))
        unit, share = fresh / torch.linalg.vector_norm(fresh), 1.0
        if towards is not None and 0 < (length := towards.norm().item()) < math.inf:
            unit = unit + towards.to(unit) / length
            share = 1 / unit.norm().item()
        self._append(share * unit)
        return share

    def _outside(self, w: Float64[Tensor, " n"]) -> tuple[Tensor, Tensor]:
        # twice is enough (Parlett 1998, section 6.9), and the first time may be by the last vectors
        # alone, which in a Krylov space hold nearly all; where they did not, once more by all
        Q = self.rows[: self.count]
        inside, near = w.new_zeros(self.count), slice(max(0, self.count - NEAR), self.count)
        inside[near] = Q[near] @ w
        w = w - inside[near] @ Q[near]
        for _ in range(2):
            more = Q @ w
            w, inside = w - more @ Q, inside + more
            size = torch.linalg.vector_norm
            if float(size(more)) <= LITTLE * float(size(w)):
                break
        return w, inside

    def _append(self, unit: Tensor) -> None:
        # rounded to the operator's precision, so that the vector kept is the vector multiplied
        self.rows[self.count] = unit.to(self.dtype).double()
        self.count += 1


# ------------------------------------------------------------------------------
# The largest singular value alone, at the price of a few products with single vectors.
#
# The idea: three terms of Lanczos, nothing orthogonalised again. What orthogonality is lost shows
# as copies of values that were found already and never as one above them, so that the largest Ritz
# value stays a lower bound up to rounding, without a basis that is kept or a block that is
# multiplied.


EDGE = 4.5  # the zero that the largest Ritz value of an edge as soft as `(1 - x)^(3/2)` follows


def largest(
    A: Float[Tensor, "m n"], *, steps: int, generator: torch.Generator | None = None
) -> float:
    """The largest singular value, from below: what so many steps of Lanczos find of it.

    Args:
        A: A finite matrix; multiplied in float64 if it is in that, in float32 otherwise.
        steps: Products with `A`, and as many with its transpose.
        generator: Source of the start.

    Raises:
        Refusal: If `steps` is below 1.

    Source:
        Lanczos 1950; Paige 1980 for what is lost without orthogonalising again.

    Cost: `2 steps` products with a vector; see `short_of` for how far below it may lie.

    Example:
        >>> round(largest(torch.diag(torch.tensor([4.0, 3.0, 1.0])), steps=3), 4)
        4.0
    """
    require_steps(steps)
    W, power = tamed(A.detach().to(WORKING.get(A.dtype, torch.float32)))
    W = W if W.shape[0] >= W.shape[1] else W.mT
    source = W.device if generator is None else generator.device
    v = torch.randn(W.shape[1], generator=generator, dtype=torch.float64, device=source).to(W)
    v, before = v / torch.linalg.vector_norm(v), torch.zeros_like(v)
    within, beyond = [], [torch.zeros((), dtype=v.dtype, device=v.device)]
    for _ in range(min(steps, W.shape[1])):
        w = W.mT @ (W @ v)
        within.append(v @ w)
        w = w.sub_(within[-1] * v).sub_(beyond[-1] * before)
        beyond.append(torch.linalg.vector_norm(w))
        before, v = v, w / beyond[-1].clamp_min(torch.finfo(v.dtype).tiny)
    diagonal, beside = (torch.stack(x).double().cpu() for x in (within, beyond[1:]))
    T = diagonal.diag() + beside[:-1].diag(1) + beside[:-1].diag(-1)
    top = torch.linalg.eigvalsh(T)[-1].clamp_min(0).sqrt()
    return float(times(top, power))


def short_of(steps: int) -> float:
    """By what factor the largest value of noise may exceed what `largest` finds of it.

    The squares are taken to be dense down to zero and to end as softly as `(1 - x)^(3/2)`; those of
    independent entries end as `(1 - x)^(1/2)`, of which `π` in the place of 4.5 would do.

    Args:
        steps: Products with the matrix.

    Source:
        Szegő 1939, Theorem 8.1.2: the outermost zero of Jacobi's polynomials.
    """
    return 1 / math.cos(min(EDGE / (2 * steps + 1), 1.0))
