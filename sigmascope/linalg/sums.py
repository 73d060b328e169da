"""Sums over all entries of large tensors, in float64 and by pieces that stay in the cache.

A copy in float64, or a mask of what is finite, takes ten times as long as the sum itself.
"""

import math
from collections.abc import Iterator

import torch
from torch import Tensor

from sigmascope.core.records import Estimate
from sigmascope.linalg.dense import EPS

PIECE = 2**16  # entries that are copied to float64 at once


def is_finite(t: Tensor) -> bool:
    """Whether no entry is infinite or not a number."""
    real = torch.view_as_real(t.resolve_conj()) if t.is_complex() else t
    return not t.numel() or bool(torch.stack(real.detach().aminmax()).isfinite().all())


def square_sum(t: Tensor) -> float:
    """Sum of `|entry|²`."""
    return sum((float(p @ p) for p in _pieces(t)), 0.0)


def norm(t: Tensor) -> float:
    """Root of the sum of `|entry|²`."""
    return math.sqrt(square_sum(t))


def mean_and_spread(t: Tensor) -> tuple[Estimate, Estimate]:
    """Mean of the entries of a real tensor, and their standard deviation about it.

    Both with what adding them up may have rounded; a spread that rounding may have made alone has
    the low end 0.

    Args:
        t: Not empty.

    Source:
        Higham 2002, Accuracy and Stability of Numerical Algorithms, (3.5), for sums in any order;
        Chan, Golub & LeVeque 1983 for the two passes.
    """
    n = t.numel()
    mean = sum((float(p.sum()) for p in _pieces(t)), 0.0) / n
    apart = (p - mean for p in _pieces(t))
    square = sum((float(p @ p) for p in apart), 0.0) / n
    gap = (n + 2) * EPS * math.sqrt(mean**2 + square)
    # about a mean that is off the squares are too large by that, squared
    low = max(square * (1 - (n + 4) * EPS) - gap**2, 0.0)
    variance = Estimate(square, low, square * (1 + (n + 4) * EPS), "summed")
    return Estimate.within(mean, gap, how="summed"), variance.sqrt()


def as_it_lies(t: Tensor) -> Tensor:
    """The same numbers, the dimensions in the order of memory: flat without a copy, if whole."""
    return t.permute(sorted(range(t.ndim), key=lambda d: -t.stride(d)))


def _pieces(t: Tensor) -> Iterator[Tensor]:
    dense = t if t.layout == torch.strided else t.to_dense()
    real = torch.view_as_real(dense.resolve_conj()) if t.is_complex() else dense
    flat = as_it_lies(real.detach()).reshape(-1)
    return (p.double() for p in flat.split(PIECE))


def median(t: Tensor) -> float:
    """The middle one of real numbers, or of an even number the mean of the two in the middle.

    (`torch.median` takes the lower of the two, which of few numbers may be far from the other.)

    Args:
        t: Not empty, in any shape.
    """
    flat = t.detach().flatten().double()
    half = len(flat) // 2
    upper = flat.kthvalue(half + 1).values
    if len(flat) % 2:
        return float(upper)
    lower = flat.kthvalue(half).values
    return float(lower + (upper - lower) / 2)
