"""Numbers computed in float64 with their rounding, as the checks of this paper need them."""

import math

import torch
from jaxtyping import Float, Float64
from torch import Tensor

from sigmascope.core.records import Estimate, Spectrum
from sigmascope.linalg.dense import EPS
from sigmascope.linalg.spectra import spectrum

SOURCE = "Riedi et al. 2022"


def exact(A: Float[Tensor, "m n"]) -> Spectrum:
    """All singular values, without the Gram matrix, so that small ones count."""
    return spectrum(A, route="exact")


def blur(*spectra: Spectrum) -> float:
    """What rounding may have done to any of the values, with room for a few operations."""
    return max(8 * EPS * s.sigma[0].item() + (s.high - s.low).max().item() for s in spectra)


def ratio(first: float, last: float, gap: float, how: str = "exact") -> Estimate:
    """A condition number from the ends of a spectrum; infinite where the last may be zero."""
    high = (first + gap) / (last - gap) if last > gap else math.inf
    low = max(1.0, (first - gap) / (last + gap)) if last + gap > 0 else 1.0
    value = first / last if last > 0 else high
    return Estimate(min(max(value, low), high), low, high, how)


def symmetric_ends(M: Float64[Tensor, "n n"]) -> tuple[float, float]:
    """Smallest and largest eigenvalue of `Mᵀ + M`."""
    lam = torch.linalg.eigvalsh(M + M.mT)
    return lam[0].item(), lam[-1].item()
