"""Singular values of a matrix, as one value that every functional reads."""

from typing import Literal

import torch
from jaxtyping import Float
from torch import Tensor

from sigmascope.linalg.dense import exact_values, gram_values, gram_work
from sigmascope.linalg.krylov.golub_kahan import golub_kahan
from sigmascope.linalg.krylov.operator import Operator
from sigmascope.linalg.refusals import overflowing, require_matrix, require_steps
from sigmascope.linalg.spectra.work import spent
from sigmascope.records import Spectrum

Route = Literal["auto", "exact", "gram", "free"]
GRAM_LIMIT = 2**40  # multiplications to form the Gram matrix; above this `auto` factorises nothing
DENSE_LIMIT = 2**24  # entries; above this `auto` does not write an Operator out
GRAM_ERROR = 1e-9  # of sigma_max; where the Gram route may err by more, `auto` goes on to "exact"


def spectrum(
    A: Float[Tensor, "m n"] | Operator,
    *,
    route: Route = "auto",
    steps: int | None = None,
    generator: torch.Generator | None = None,
) -> Spectrum:
    """Singular values of `A` in float64, largest first, each with its interval.

    Args:
        A: A finite floating matrix of any precision and device, or an operator.
        route: `"exact"` factorises `A`. `"gram"` takes the eigenvalues of the smaller of `A Aᵀ` and
            `Aᵀ A`, formed in float64: several times faster, but blind below about 1e-7 of the
            largest value. `"free"` spends `steps` products with `A` and with `Aᵀ` and returns
            the leading `steps` values. `"auto"` depends on the shape alone, with one exception:
            it is `"gram"`, followed by `"exact"` where the interval of the smallest value is wider
            than 1e-9 of the largest; `"free"` where forming the Gram matrix takes more than
            2^40 multiplications, or where an operator has more than 2^24 entries.
        steps: Products to spend on the free route; 64, or the smaller dimension, when omitted.
        generator: Source of the random start of the free route.

    Returns:
        All `min(m, n)` values in the unit of the entries (the leading ones on the free route), on
        the CPU. `Spectrum.how` names the route taken.

    Raises:
        TypeError: If a tensor `A` is not real floating point.
        ValueError: If a tensor `A` is empty, not a matrix, or not finite, or if its largest
            singular value is beyond float64.

    Source:
        Golub & Kahan 1965 for both the exact and the free route; intervals by Weyl 1912, Cauchy
        interlacing, and Kuczyński & Woźniakowski 1992, Theorem 4.2 (see `krylov.py`).

    Example:
        >>> spectrum(torch.diag(torch.tensor([3.0, -4.0]))).sigma.round(decimals=6)
        tensor([4., 3.], dtype=torch.float64)
    """
    if isinstance(A, Tensor):
        require_matrix(A, name="A")
        A = A.detach()
    route = settled(A, route)
    if route == "free":
        return _free(A, steps, generator)
    dense = A if isinstance(A, Tensor) else A.dense().detach()
    if not isinstance(A, Tensor):
        require_matrix(dense, name="A.dense()")
    spent((dense.shape[0], dense.shape[1]), exact=route == "exact")
    return dense_spectra(dense[None], route)[0]


def settled(A: Float[Tensor, "m n"] | Operator, route: Route) -> Route:
    """The route for a matrix of this size; "auto" is left where it means Gram, then exact."""
    m, n = A.shape
    large = gram_work(m, n) > GRAM_LIMIT if isinstance(A, Tensor) else m * n > DENSE_LIMIT
    return "free" if large and route == "auto" else route


def dense_spectra(stack: Float[Tensor, "b m n"], route: Route) -> list[Spectrum]:
    """The spectra of checked matrices of one shape, on any route but the free one."""
    if route == "exact":
        return _exact(stack, "exact")
    _, m, n = stack.shape
    sigma, low, high = gram_values(stack)
    error = torch.maximum(high - sigma, sigma - low)[:, -1]
    coarse = (error > GRAM_ERROR * sigma[:, 0]) & (route == "auto")
    rows = (tuple(each[i].clone() for each in (sigma, low, high)) for i in range(len(stack)))
    # copies: a row of a stack would carry all of it to wherever it is kept
    spectra = [Spectrum(s, (m, n), "gram", low, high) for s, low, high in rows]
    for i in coarse.nonzero()[:, 0].tolist():
        (spectra[i],) = _exact(stack[i : i + 1], "exact, the Gram matrix being too coarse")
    return [_within_range(s) for s in spectra]


def _exact(stack: Tensor, how: str) -> list[Spectrum]:
    _, m, n = stack.shape
    sigma, low, high = exact_values(stack)
    return [
        _within_range(Spectrum(sigma[i], (m, n), how, low[i], high[i])) for i in range(len(stack))
    ]


def _free(A: Tensor | Operator, steps: int | None, generator: torch.Generator | None) -> Spectrum:
    m, n = A.shape
    steps = min(m, n, 64 if steps is None else steps)
    require_steps(steps)
    sigma, low, high, risk = golub_kahan(A, steps=steps, generator=generator)
    how = f"golub-kahan(steps={steps})"
    return _within_range(Spectrum(sigma, (m, n), how, low, high, risk))


def _within_range(s: Spectrum) -> Spectrum:
    if not s.sigma[0].isfinite():
        raise overflowing(s.shape)
    return s
