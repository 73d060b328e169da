"""Lanczos: what a symmetric map does to the space that its products with one vector span."""

import math
from dataclasses import dataclass
from typing import Literal

import torch
from jaxtyping import Float64
from torch import Tensor

from sigmascope.linalg.dense import SMALLEST
from sigmascope.linalg.krylov.golub_kahan import Basis
from sigmascope.linalg.krylov.operator import Operator
from sigmascope.linalg.refusals import not_finite_products, require_square, require_steps

Sides = Literal["both", "top", "bottom"]
EVERY = 2  # steps between two looks at whether the ends have settled


@dataclass(frozen=True, slots=True)
class Krylov:
    """A symmetric map compressed to the space of its products with one random vector.

    Attributes:
        basis: `V`, orthonormal.
        matrix: `Vᵀ A V`, tridiagonal unless the space was exhausted and begun again.
        rest: `‖A V - V (Vᵀ A V)‖`, all of it in the last column.
        precision: Relative rounding of one product.
        random: How much of the start is random: the length of the random unit vector in it.
        grid: Distance of the smallest numbers of the format in which products are made.
    """

    basis: Float64[Tensor, "n k"]
    matrix: Float64[Tensor, "k k"]
    rest: float
    precision: float
    random: float = 1.0
    grid: float = SMALLEST

    @property
    def steps(self) -> int:
        """Products spent."""
        return self.basis.shape[1]

    @property
    def complete(self) -> bool:
        """Whether the space is the whole one."""
        return self.basis.shape[0] == self.basis.shape[1]

    @property
    def rounding(self) -> float:
        """Of a Ritz value, in the unit of the eigenvalues."""
        n, k = self.basis.shape
        size = torch.linalg.matrix_norm(self.matrix, 2).item()
        lost = 8 * n * self.grid if size > 0 else 0.0  # products that are subnormal
        return 8 * (math.sqrt(n) + k) * self.precision * size + lost

    def ritz(self) -> tuple[Float64[Tensor, " k"], Float64[Tensor, "k k"], Float64[Tensor, " k"]]:
        """Ritz values in ascending order, their vectors in the basis, and their residuals."""
        values, vectors = torch.linalg.eigh(self.matrix)
        return values, vectors, self.rest * vectors[-1].abs()


def krylov_space(
    A: Operator,
    *,
    steps: int = 64,
    tolerance: float = 0.0,
    count: int = 1,
    sides: Sides = "both",
    ends: bool = True,
    moments: bool = False,
    towards: Float64[Tensor, " n"] | None = None,
    generator: torch.Generator | None = None,
) -> Krylov:
    """The Krylov space of a symmetric operator from a random start, reorthogonalised in float64.

    Args:
        A: Symmetric; that it is, is not checked.
        steps: Products to spend at most.
        tolerance: Stop as soon as the error expected of the `count` outermost eigenvalues on both
            sides is below this share of the largest; 0 to spend all steps.
        count: How many on each side have to settle.
        sides: Where they have to.
        ends: Whether they have to at all.
        moments: Whether to go on, for a tolerance, as long as a step takes more out of the trace's
            variance than a sample of what is left would average away.
        towards: Start half way between a random direction and this one, which is thought to be near
            the eigenvectors that are looked for; the gradient, for the curvature of a loss.
        generator: Source of the random start.

    Raises:
        ValueError: If `A` is not square, its products are not finite, or `steps` is below 1.

    Source:
        Lanczos 1950; full reorthogonalisation, twice, as in Parlett 1998, section 6.9.

    Cost: one product a step, and memory for as many vectors in float64.
    """
    require_square(A.shape, name="A")
    require_steps(steps)
    n = A.shape[0]
    steps = min(steps, n)
    basis = Basis(n, steps, A, generator)
    T = torch.zeros(steps, steps, dtype=torch.float64)
    random = basis.restart(towards)
    rest, j = 0.0, 0
    for j in range(steps):
        last = j + 1 == steps
        rest, inside = basis.project(A.apply(basis.last()), grow=not last)
        if not inside.isfinite().all():
            raise not_finite_products(A.shape)
        T[: j + 1, j] = T[j, : j + 1] = inside.cpu()
        looking = tolerance > 0 and j % EVERY == EVERY - 1 and not last
        so_far = T[: j + 1, : j + 1]
        if (
            looking
            and not (ends and not _settled(so_far, rest, tolerance, count, sides))
            and not (moments and _pays(so_far, rest, tolerance))
        ):
            break
    info, k = torch.finfo(A.like.dtype), j + 1
    precision, grid = max(info.eps, 2.0**-52), max(info.tiny * info.eps, SMALLEST)
    return Krylov(basis.rows[:k].T, T[:k, :k].clone(), rest, precision, random, grid)


def _pays(T: Float64[Tensor, "k k"], rest: float, tolerance: float) -> bool:
    """Whether the last steps made the trace cheaper to sample by more than they cost.

    A step takes the squares of its row and column out of the Frobenius norm of the rest, twice
    which is the variance of a sample; `(tolerance × trace)²` of it costs one sample. The trace is
    at least what was seen of it, where the curvature is mostly upwards.
    """
    if len(T) <= EVERY:
        return True
    before = T[:-EVERY, :-EVERY]
    taken = float(T.square().sum() - before.square().sum())
    beyond = 2 * rest**2 - 2 * float(T[:-EVERY, -EVERY:].square().sum())  # moved, not taken
    return 2 * (taken + beyond) > EVERY * (tolerance * abs(float(T.trace()))) ** 2


def _settled(
    T: Float64[Tensor, "k k"], rest: float, tolerance: float, count: int, sides: Sides
) -> bool:
    """Whether residuals, squared over the gap, say that the outermost values are accurate."""
    if len(T) < 2 * count + 2:
        return False
    values, vectors = torch.linalg.eigh(T)
    residuals = rest * vectors[-1].abs()
    size = values.abs().max().item() * tolerance
    above = (values[1:] - values[:-1]).clamp_min(1e-300)
    top, bottom = (slice(-count, None), above[-count:]), (slice(count), above[:count])
    for chosen, gaps in {"both": (top, bottom), "top": (top,), "bottom": (bottom,)}[sides]:
        r = residuals[chosen]
        if torch.minimum(r, r.square() / gaps).max().item() > size:
            return False
    return True
