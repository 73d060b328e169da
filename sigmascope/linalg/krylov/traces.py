"""Trace and Frobenius norm, by sums where there are entries and by sampling where there are not."""

import math
from dataclasses import dataclass

import torch
from jaxtyping import Float, Float64
from torch import Tensor

from sigmascope.linalg.dense import SMALLEST, power_of_two
from sigmascope.linalg.krylov.operator import Operator
from sigmascope.linalg.krylov.quadratic_forms import Bounds, Chances
from sigmascope.linalg.refusals import (
    not_finite_products,
    require_between,
    require_matrix,
    require_samples,
    require_square,
)
from sigmascope.records import Estimate

BLOCK = 64  # random vectors multiplied at a time


def trace(
    A: Float[Tensor, "n n"] | Operator,
    *,
    samples: int = 64,
    risk: float = 0.05,
    generator: torch.Generator | None = None,
) -> Estimate:
    """Sum of the diagonal of a square `A`.

    Args:
        A: A matrix, whose diagonal is summed; or an operator, for which `xᵀ A x` is averaged over
            normal vectors `x`.
        samples: Random vectors spent on an operator; with as many as columns, it is exact.
        risk: Chance that the interval of a sampled operator misses, whatever its eigenvalues are:
            it is as wide as the Frobenius norm that `‖A x‖` shows allows.
        generator: Source of the random vectors.

    Returns:
        In the unit of the entries.

    Raises:
        TypeError: If a tensor `A` is not real floating point.
        ValueError: If `A` is not square, a tensor `A` not finite, `samples` below 2, or `risk` not
            in (0, 1).

    Source:
        Girard 1989; Hutchinson 1990; interval by Laurent & Massart 2000, Lemma 1 (see `forms.py`).

    Example:
        >>> trace(torch.eye(3)).value
        3.0
    """
    if isinstance(A, Tensor):
        require_matrix(A, name="A")
    require_square((A.shape[0], A.shape[1]), name="A")
    if isinstance(A, Tensor):
        return _summed(A.detach().diagonal(), eps=2.0**-52, how="summed")
    require_sampling(samples, risk)
    if samples >= A.shape[1]:
        return _summed(A.dense().detach().diagonal(), eps=precision(A), how="exact")
    drawn = Drawn.of(A, samples, generator)
    value = float(drawn.forms.mean())
    known = drawn.square(risk / 2)
    gap = Chances(samples, risk / 2).deviation(known.high, known.top)
    gap += precision(A) * float(drawn.forms.abs().amax() + drawn.squares.amax().sqrt())
    low, value, high = (drawn.unit * v for v in (value - gap, value, value + gap))
    if low < high:
        low, high = low - SMALLEST, high + SMALLEST
    return Estimate(value, low, high, f"hutchinson(samples={samples})", risk)


def sampled_frobenius_norm(
    A: Operator, *, samples: int, risk: float, generator: torch.Generator | None
) -> Estimate:
    """Frobenius norm of an operator, from the mean of `‖A x‖²` over normal vectors `x`."""
    require_sampling(samples, risk)
    if samples >= A.shape[1]:
        lengths = _lengths(A.dense().detach().double())
        top = lengths.amax().item() or 1.0
        square = (lengths / top).square().sum().item()
        low, high, how, risk = square, square, "exact", 0.0
    else:
        drawn = Drawn.of(A, samples, generator)
        top, square, known = drawn.unit, float(drawn.squares.mean()), drawn.square(risk)
        low, high, how = known.low, known.high, f"hutchinson(samples={samples})"
    gap = 2 * precision(A) * max(square, high)
    low, value, high = (top * math.sqrt(max(v, 0.0)) for v in (low - gap, square, high + gap))
    if high > 0:
        low, high = max(low - SMALLEST, 0.0), high + SMALLEST
    return Estimate(value, min(low, value), max(high, value), how, risk)


@dataclass(frozen=True, slots=True)
class Drawn:
    """Products of an operator with normal vectors, reduced to what is asked of them.

    Attributes:
        forms: `xᵀ A x / unit`; of a square operator only.
        squares: `‖A x‖² / unit²`.
        largest: Sum over blocks of vectors of the largest eigenvalue of `XᵀAᵀA X / unit²`.
        unit: A power of two, so that squares are safe.
    """

    forms: Float64[Tensor, " forms"]
    squares: Float64[Tensor, " samples"]
    largest: float
    unit: float

    @classmethod
    def of(cls, A: Operator, samples: int, generator: torch.Generator | None) -> "Drawn":
        """Multiply, a block of vectors at a time."""
        unit, found = 0.0, []
        for start in range(0, samples, BLOCK):
            x = normal_vectors(A, min(BLOCK, samples - start), generator)
            y = A.apply(x).detach().double()
            size = y.abs().amax().item()
            if not math.isfinite(size):
                raise not_finite_products(A.shape)
            own = power_of_two(size) if size > 0 else 1.0
            y = y / own
            forms = (x.double() * y).sum(0) if A.shape[0] == A.shape[1] else y.new_zeros(0)
            found.append((own, forms.cpu(), (y.mT @ y).cpu()))
            unit = max(unit, own if size > 0 else 0.0)
        unit = unit or 1.0
        grams = [(own / unit) ** 2 * gram for own, _, gram in found]
        return cls(
            torch.cat([own / unit * forms for own, forms, _ in found]),
            torch.cat([gram.diagonal() for gram in grams]),
            sum(float(torch.linalg.eigvalsh(gram)[-1]) for gram in grams),
            unit,
        )

    def square(self, risk: float) -> Bounds:
        """Bounds of `‖A‖_F²` and `‖A‖₂²`, over the square of the unit."""
        return Chances(len(self.squares), risk).bounds(float(self.squares.mean()), self.largest)


def require_sampling(samples: int, risk: float) -> None:
    """Raise unless the samples can tell their own spread, and the risk is one."""
    require_samples(samples)
    require_between(risk, 2.0**-52, 1, name="risk", instead="It is a chance, e.g. 0.05.")


def _summed(diagonal: Float[Tensor, " n"], *, eps: float, how: str) -> Estimate:
    terms = diagonal.double().tolist()
    top = max(map(abs, terms)) or 1.0
    value = top * math.fsum(t / top for t in terms)  # scaled: partial sums cannot overflow
    size = math.fsum(abs(t / top) for t in terms)
    gap = eps * top * size + (SMALLEST if size else 0.0)
    return Estimate(value, value - gap, value + gap, how)


def precision(A: Operator) -> float:
    """Relative rounding of one product with `A`, whose sums are as long as its larger side."""
    return 4 * (math.sqrt(max(A.shape)) + 4) * max(torch.finfo(A.like.dtype).eps, 2.0**-52)


def normal_vectors(A: Operator, count: int, generator: torch.Generator | None) -> Tensor:
    """Columns of normal entries that `A` can be multiplied with, on its device."""
    device = A.like.device if generator is None else generator.device
    drawn = torch.randn(A.shape[1], count, generator=generator, device=device, dtype=torch.float64)
    return drawn.to(A.like.device, A.like.dtype)


def _lengths(columns: Float64[Tensor, "m k"]) -> Float64[Tensor, " k"]:
    top = columns.abs().amax(0)
    safe = torch.where(top > 0, top, 1)
    return top * torch.linalg.vector_norm(columns / safe, dim=0)
