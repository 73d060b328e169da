"""Counting eigenvalues without computing any."""

import math

import numpy as np
import torch
from jaxtyping import Float, Float64
from torch import Tensor

from sigmascope.linalg.dense import EPS, power_of_two
from sigmascope.linalg.refusals import require_symmetric
from sigmascope.records import Estimate

TRIES = 8  # widenings of the shift before the count is called undecided


def count_above(M: Float[Tensor, "d d"], tau: float) -> Estimate:
    """Number of eigenvalues of a symmetric `M` that are at least `tau`.

    `M - t I = L D Lᵀ` has as many eigenvalues of each sign as `D` (Sylvester), whose blocks are of
    size 1 or 2. Factorising at `t = tau - δ` and `tau + δ`, with δ above the rounding of both,
    brackets the count; where the two agree it is exact. An eigenvalue within δ of `tau` counts, so
    that the identity has all its eigenvalues above 1.

    Args:
        M: A finite symmetric matrix.
        tau: Threshold, in the unit of the entries.

    Returns:
        A count between 0 and `d`.

    Raises:
        TypeError: If `M` is not real floating point.
        ValueError: If `M` is not a finite symmetric matrix, or `tau` is not finite.

    Source:
        Sylvester 1852; Bunch & Kaufman 1977; rounding by Higham 2002, Theorem 11.3.

    Example:
        >>> count_above(torch.diag(torch.tensor([3.0, 2.0, -1.0])), 2.0).value
        2.0
    """
    require_symmetric(M, name="M")
    if not math.isfinite(tau):
        raise ValueError(
            f"`tau` must be finite, got {tau}. Every eigenvalue exceeds -inf and none inf."
        )
    S = M.detach().double().cpu()
    top = max(S.abs().amax().item(), abs(tau))
    if top > 0 and not 1e-100 < top < 1e100:  # products of entries must stay inside float64
        S, tau = S / power_of_two(top), tau / power_of_two(top)
    most, least = _bracket(S, tau)
    return Estimate(float(most), float(least), float(most), "inertia")


def _bracket(S: Float64[Tensor, "d d"], tau: float) -> tuple[int, int]:
    """At most and at least how many eigenvalues of `S` reach `tau`."""
    d = len(S)
    norm = S.abs().sum(1).amax().item() + abs(tau)
    # a first guess that random matrices of order 10 to 1000 stay below by a factor of 3
    delta = 8 * d**1.5 * EPS * norm
    for _ in range(TRIES):
        most, error_below = _reaching(S, tau - delta)
        least, error_above = _reaching(S, tau + delta)
        error = _rounding(d) * (max(error_below, error_above) + norm + delta)
        if error <= delta:
            return most, least
        delta = 2 * error
    return d, 0


def _rounding(d: int) -> float:
    """Share of `‖ |A| + |L||D||Lᵀ| ‖` by which the factors of a matrix of order `d` are off.

    Higham's bound is `d eps`; `√d` for `d` as roundings walk at random (Higham & Mary 2019).
    """
    return 8 * math.sqrt(d) * EPS


def _reaching(S: Float64[Tensor, "d d"], shift: float) -> tuple[int, float]:
    """How many pivots of `S - shift` are at least 0, and the norm of `|L||D||Lᵀ|`."""
    shifted = S.clone()
    shifted.diagonal().sub_(shift)
    LD, order, _ = torch.linalg.ldl_factor_ex(shifted)
    pivots = LD.diagonal().numpy()
    rows = (order < 0).numpy().nonzero()[0]  # both rows of a block of size 2 are marked
    first, second = rows[0::2], rows[1::2]
    a, b, c = pivots[first], LD.numpy()[second, first], pivots[second]
    count = np.count_nonzero(pivots >= 0) - np.count_nonzero(a >= 0) - np.count_nonzero(c >= 0)
    blocks = np.moveaxis(np.array([[a, b], [b, c]]), -1, 0)
    count += np.count_nonzero(np.linalg.eigvalsh(blocks) >= 0)

    L = LD.tril(-1).abs_()
    L[second, first] = 0  # LAPACK keeps the coupling of a block where L has none
    x = L.sum(0).add_(1).numpy()
    y = abs(pivots) * x
    y[first] += abs(b) * x[second]
    y[second] += abs(b) * x[first]
    y = torch.from_numpy(y)
    return int(count), (L @ y).add_(y).amax().item()  # products with ones: the largest row sum


def counts_above(M: Float64[Tensor, "*many d d"], tau: float) -> Float64[Tensor, "*many"]:
    """How many eigenvalues of each of many symmetric matrices are at least `tau`.

    One factorisation each, for averages over many matrices: an eigenvalue closer to `tau` than
    rounding may fall on either side. `count_above` brackets the count of a single matrix.

    Args:
        M: Finite symmetric matrices.
        tau: Threshold; eigenvalues within rounding below it count.

    Returns:
        Counts between 0 and `d`.

    Source:
        Sylvester 1852; Bunch & Kaufman 1977.
    """
    shifted = M.clone()
    slack = 4 * M.shape[-1] * EPS * (float(torch.linalg.vector_norm(M, torch.inf)) + abs(tau))
    shifted.diagonal(dim1=-2, dim2=-1).sub_(tau - slack)
    LD, order, _ = torch.linalg.ldl_factor_ex(shifted)
    up = (LD.diagonal(dim1=-2, dim2=-1) >= 0).double()
    # a block of size 2 has one eigenvalue of each sign (Bunch & Kaufman 1977)
    return up.masked_fill_(order < 0, 0.5).sum(-1)
