"""Matrix norms: spectral, Frobenius, Schatten."""

import math

import torch
from jaxtyping import Float
from torch import Tensor

from sigmascope.core.guard import Refusal
from sigmascope.core.records import Estimate, Spectrum
from sigmascope.linalg.dense import EPS, SMALLEST, largest, norm_within, power_of_two
from sigmascope.linalg.krylov.operators import Operator
from sigmascope.linalg.krylov.traces import sampled_frobenius_norm
from sigmascope.linalg.refusals import require_complete, require_matrix
from sigmascope.linalg.spectra import Route, settled, spectrum


def spectral_norm(
    A: Float[Tensor, "m n"] | Operator | Spectrum,
    *,
    route: Route = "auto",
    steps: int | None = None,
    generator: torch.Generator | None = None,
) -> Estimate:
    """Largest singular value of `A`.

    Args:
        A: A matrix, an operator, or a spectrum already at hand, partial or not.
        route: As for `spectrum`.
        steps: Products to spend on the free route.
        generator: Source of the random start of the free route.

    Returns:
        In the unit of the entries, at least 0.

    Raises:
        TypeError: If a tensor `A` is not real floating point.
        Refusal: If a tensor `A` is empty, not a matrix, or not finite.

    Source:
        As `spectrum`.

    Example:
        >>> round(spectral_norm(torch.tensor([[3.0, 4.0]])).value, 9)
        5.0
    """
    if not isinstance(A, Spectrum):
        # for the largest value alone the Gram route is as good as any: no second factorisation
        if isinstance(A, Tensor):
            require_matrix(A, name="A")
        route = "gram" if settled(A, route) == "auto" else route
        A = spectrum(A, route=route, steps=steps, generator=generator)
    return Estimate(A.sigma[0].item(), A.low[0].item(), A.high[0].item(), A.how, A.risk)


def frobenius_norm(
    A: Float[Tensor, "m n"] | Operator | Spectrum,
    *,
    samples: int = 64,
    risk: float = 0.05,
    generator: torch.Generator | None = None,
) -> Estimate:
    """Root of the sum of the squared entries of `A`, and of its squared singular values.

    Args:
        A: A matrix, summed; all its singular values; or an operator, which is multiplied with
            normal vectors `x`, `‖A x‖²` having the mean `‖A‖_F²`.
        samples: Random vectors spent on an operator; with as many as columns, it is exact.
        risk: Chance that the interval of a sampled operator misses, whatever its singular values.
        generator: Source of the random vectors.

    Returns:
        In the unit of the entries, at least 0.

    Raises:
        TypeError: If a tensor `A` is not real floating point.
        Refusal: If a tensor `A` is empty, not a matrix, or not finite, or a spectrum partial.

    Source:
        Girard 1989; Hutchinson 1990; interval as `trace_of_forms`.

    Example:
        >>> frobenius_norm(torch.tensor([[3.0, 4.0]])).value
        5.0
    """
    if isinstance(A, Spectrum):
        return schatten_norm(A, 2)
    if isinstance(A, Operator):
        return sampled_frobenius_norm(A, samples=samples, risk=risk, generator=generator)
    require_matrix(A, name="A")
    if A.dtype != torch.float64:  # squares of narrower formats are inside float64 as they are
        return norm_within(A)
    scale = power_of_two(largest(A) or 1.0)
    return norm_within(A.detach() / scale) * scale


def schatten_norm(s: Spectrum, p: float) -> Estimate:
    """`(Σ σᵢᵖ)^(1/p)`: nuclear norm at 1, Frobenius at 2, spectral at infinity.

    Args:
        s: All singular values; the leading ones are enough at infinity.
        p: At least 1; `math.inf` allowed.

    Returns:
        In the unit of the entries, at least 0.

    Raises:
        Refusal: If `p < 1`, or if the spectrum is partial.

    Source:
        Bhatia 1997, section IV.2.

    Example:
        >>> s = Spectrum(torch.tensor([4.0, 3.0], dtype=torch.float64), (2, 2), "exact")
        >>> schatten_norm(s, 1).value
        7.0
    """
    if not p >= 1:
        raise Refusal(
            f"`p` must be at least 1, got {p:g}. Below 1 the sum is no norm: "
            "take `(s.sigma**p).sum()` if that is meant."
        )
    if p == math.inf:
        return spectral_norm(s)
    require_complete(s, asked="schatten_norm")
    rounding = 4 * (len(s.sigma) + p) * EPS
    ends: list[float] = []
    for sigma in (s.low, s.sigma, s.high):
        top = sigma[0].item()
        ends.append(0.0 if top == 0 else top * (sigma / top).pow(p).sum().pow(1 / p).item())
    low, value, high = ends
    if high == 0:
        return Estimate(value, low, high, s.how, s.risk)
    low, high = max(low * (1 - rounding) - SMALLEST, 0.0), high * (1 + rounding) + SMALLEST
    return Estimate(value, low, high, s.how, s.risk)
