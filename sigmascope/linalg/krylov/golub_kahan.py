"""Golub-Kahan bidiagonalisation: leading singular values from products alone.

The idea: products of a matrix and its transpose with one random vector build two orthonormal bases
between which the matrix is bidiagonal, and the singular values of that small matrix approach the
largest ones. The invariant: both bases are orthogonalised fully, so that Ritz values are those of a
compression and never exceed the true ones; rounding is all that low ends lose. What an unfinished
run may have missed is bounded from above by chance over the start, and by the energy that is left.

Source: Golub & Kahan 1965; Kuczyński & Woźniakowski 1992, Theorem 4.2.
"""

import math

import torch
from jaxtyping import Float, Float64
from torch import Tensor

from sigmascope.linalg.dense import SMALLEST
from sigmascope.linalg.krylov.operator import Operator
from sigmascope.linalg.refusals import not_finite_products, overflowing

RISK = 1e-6  # chance that the random start of an unfinished run hides the largest singular value
TINY, HUGE = 1e-140, 1e140  # lengths of which squares neither underflow nor overflow
PANEL = 2**22  # entries of a tensor converted to float64 at a time

Ends = tuple[Float64[Tensor, " k"], Float64[Tensor, " k"], Float64[Tensor, " k"], float]


def golub_kahan(
    A: Float[Tensor, "m n"] | Operator, *, steps: int, generator: torch.Generator | None
) -> Ends:
    """The leading Ritz values of `steps` products, their low and high ends, and the risk.

    Low ends are the Ritz values less rounding: those of a compression never exceed those of the
    matrix (Cauchy interlacing). High ends are rounding alone once the smaller space is exhausted;
    before that, `_top` for the first, and for a tensor the energy `‖A‖_F² - Σ_{j<i} θⱼ²` that the
    leading values leave for the i-th.

    Source:
        Golub & Kahan 1965; Kuczyński & Woźniakowski 1992, Theorem 4.2.
    """
    operator = _in_float64(A.detach()) if isinstance(A, Tensor) else A
    theta, top = _bidiagonal(operator, steps, generator)
    if not theta.isfinite().all():
        raise overflowing(operator.shape) if isinstance(A, Tensor) else not_finite_products(A.shape)
    theta = torch.linalg.svdvals(theta)
    info = torch.finfo(operator.like.dtype)
    eps = max(info.eps, 2.0**-52)
    slack = 16 * (math.sqrt(max(operator.shape)) + math.sqrt(steps)) * eps * theta[0]
    lost = 8 * max(operator.shape) * max(info.tiny * info.eps, SMALLEST)
    slack = slack + lost / top  # products that are subnormal
    low = (theta - slack).clamp_min(0) * top
    if steps == min(operator.shape):
        return theta * top, low, (theta + slack) * top, 0.0
    high = torch.full_like(theta, math.inf)
    high[0] = _top(theta[0].item() + slack.item(), steps, min(operator.shape))
    risk = RISK if high[0].isfinite() else 0.0
    if isinstance(A, Tensor):
        high = torch.minimum(high, _left_over(A, theta - slack, top) + slack)
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


def _top(theta: float, steps: int, dimension: int) -> float:
    """What the largest value exceeds with chance `RISK` at most, `theta` having been found.

    From a uniformly random start, `(λ₁ - θ₁) / λ₁ > ε` for the squares with probability at most
    `1.648 √dimension exp(-√ε (2 steps - 1))`.
    """
    missed = (math.log(1.648 * math.sqrt(dimension) / RISK) / (2 * steps - 1)) ** 2
    return theta / math.sqrt(1 - missed) if missed < 1 else math.inf


def _left_over(A: Tensor, theta: Tensor, top: float) -> Tensor:
    total = torch.linalg.vector_norm(A.detach().double() / top).cpu().square()
    taken = theta.clamp_min(0).square().cumsum(0) - theta.clamp_min(0).square()
    return (total * (1 + A.numel() * 2.0**-52) - taken).clamp_min(0).sqrt()


def _bidiagonal(
    A: Operator, steps: int, generator: torch.Generator | None
) -> tuple[Float64[Tensor, "k k"], float]:
    """`B / top` and `top`, for `A V = U B` with `U`, `V` orthonormal and `B` upper bidiagonal."""
    m, n = A.shape
    there, back = (A.apply, A.adjoint) if m >= n else (A.adjoint, A.apply)
    U, V = Basis(max(m, n), steps, A, generator), Basis(min(m, n), steps, A, generator)
    B = torch.zeros(steps, steps, dtype=torch.float64)
    V.restart()
    for j in range(steps):
        B[j, j] = U.extend(there(V.last()))
        if j + 1 < steps:
            B[j, j + 1] = V.extend(back(U.last()))
    top = B.abs().amax().item()
    return (B / top if top > 0 else B), (top if top > 0 else 1.0)


class Basis:
    """An orthonormal basis that grows by one vector at a time."""

    def __init__(
        self, size: int, steps: int, A: Operator, generator: torch.Generator | None
    ) -> None:
        # one vector after the other: products with the first few then read memory in order
        self.rows = torch.empty(steps, size, dtype=torch.float64, device=A.like.device)
        self.count = 0
        self.dtype = A.like.dtype
        self.tolerance = 4 * math.sqrt(size) * max(torch.finfo(self.dtype).eps, 2.0**-52)
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
        Q = self.rows[: self.count]
        first = Q @ w
        w = w - first @ Q
        second = Q @ w  # twice is enough (Parlett 1998, section 6.9)
        return w - second @ Q, first + second

    def _append(self, unit: Tensor) -> None:
        # rounded to the operator's precision, so that the vector kept is the vector multiplied
        self.rows[self.count] = unit.to(self.dtype).double()
        self.count += 1
