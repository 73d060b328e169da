"""Trace and Frobenius norm, by sums where there are entries and by sampling where there are not."""

import math
from collections.abc import Callable

import torch
from jaxtyping import Float, Float64
from scipy.special import stdtrit
from torch import Tensor

from sigmascope.linalg.estimates import Estimate
from sigmascope.linalg.operators import Operator
from sigmascope.linalg.refusals import (
    require_between,
    require_matrix,
    require_samples,
    require_square,
)

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
            random signs `x`.
        samples: Random vectors spent on an operator; with as many as columns, it is exact.
        risk: Chance that the interval of a sampled operator misses (Student's law, which is
            approximate where few entries off the diagonal carry the spread).
        generator: Source of the random signs.

    Returns:
        In the unit of the entries.

    Raises:
        TypeError: If a tensor `A` is not real floating point.
        ValueError: If `A` is not square, a tensor `A` not finite, `samples` below 2, or `risk` not
            in (0, 1).

    Source:
        Hutchinson 1990, Proposition 1.

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
    products = _sampled(A, samples, generator, lambda x, y: (x * y).sum(0))
    value, gap = student(products, risk)
    gap += precision(A) * products.abs().amax().item()
    return Estimate(value, value - gap, value + gap, f"hutchinson(samples={samples})", risk)


def sampled_frobenius_norm(
    A: Operator, *, samples: int, risk: float, generator: torch.Generator | None
) -> Estimate:
    """Frobenius norm of an operator, from the mean of `‖A x‖²` over random signs `x`."""
    require_sampling(samples, risk)
    exact = samples >= A.shape[1]
    if exact:
        lengths = _lengths(A.dense().detach().double())
    else:
        lengths = _sampled(A, samples, generator, lambda _, y: _lengths(y))
    top = lengths.amax().item() or 1.0
    squares = (lengths / top).square()
    square, gap = (squares.sum().item(), 0.0) if exact else student(squares, risk)
    gap += 2 * precision(A) * max(square, 1.0)
    low, value, high = (top * math.sqrt(max(v, 0.0)) for v in (square - gap, square, square + gap))
    how = "exact" if exact else f"hutchinson(samples={samples})"
    return Estimate(value, low, high, how, 0.0 if exact else risk)


def require_sampling(samples: int, risk: float) -> None:
    """Raise unless the samples can tell their own spread, and the risk is one."""
    require_samples(samples)
    require_between(risk, 2.0**-52, 1, name="risk", instead="It is a chance, e.g. 0.05.")


def _summed(diagonal: Float[Tensor, " n"], *, eps: float, how: str) -> Estimate:
    terms = diagonal.double().tolist()
    top = max(map(abs, terms)) or 1.0
    value = top * math.fsum(t / top for t in terms)  # scaled: partial sums cannot overflow
    gap = eps * top * math.fsum(abs(t / top) for t in terms)
    return Estimate(value, value - gap, value + gap, how)


def precision(A: Operator) -> float:
    """Relative rounding of one product with `A`, whose sums are as long as its larger side."""
    return 4 * (math.sqrt(max(A.shape)) + 4) * max(torch.finfo(A.like.dtype).eps, 2.0**-52)


def _sampled(
    A: Operator,
    samples: int,
    generator: torch.Generator | None,
    read: Callable[[Tensor, Tensor], Tensor],
) -> Float64[Tensor, " samples"]:
    """What `read(x, A x)` says of each of `samples` columns of random signs `x`."""
    found = []
    for start in range(0, samples, BLOCK):
        x = random_signs(A, min(BLOCK, samples - start), generator).to(A.like.dtype)
        found.append(read(x.double(), A.apply(x).detach().double()).cpu())
    return torch.cat(found)


def random_signs(A: Operator, count: int, generator: torch.Generator | None) -> Tensor:
    """Columns of random signs that `A` can be multiplied with, as integers on its device."""
    device = A.like.device if generator is None else generator.device
    signs = torch.randint(0, 2, (A.shape[1], count), generator=generator, device=device) * 2 - 1
    return signs.to(A.like.device)


def _lengths(columns: Float64[Tensor, "m k"]) -> Float64[Tensor, " k"]:
    top = columns.abs().amax(0)
    safe = torch.where(top > 0, top, 1)
    return top * torch.linalg.vector_norm(columns / safe, dim=0)


def student(values: Float64[Tensor, " n"], risk: float) -> tuple[float, float]:
    """Mean, and the half-width that Student's law gives it."""
    n = len(values)
    top = values.abs().amax().item() or 1.0
    t = float(stdtrit(n - 1, 1 - risk / 2))
    half = t * (values / top).std().item() / math.sqrt(n)
    return top * (values / top).mean().item(), top * half
