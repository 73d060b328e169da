"""Ranks and volumes of many matrices of one shape, whose singular values are rows of one tensor.

Singular values lie along the last dimension, descending; what is returned has the others.
"""

import math

import torch
from torch import Tensor

from sigmascope.linalg.dense import EPS
from sigmascope.linalg.refusals import require_between

WALK = 4e-7  # by the root of the rows: what errors of single precision add up to, as they walk
Ends = tuple[Tensor, Tensor, Tensor]


def rank_tolerance(shape: tuple[int, int]) -> float:
    """Below this share of the largest singular value, one counts as zero where none is given.

    Args:
        shape: Of the matrix.

    Source:
        Daneshmand et al. 2020, footnote 2.
    """
    return min(max(shape) * 1e-7, 1 - EPS)  # beyond 1e7 rows the rule would count nothing


def rank_counts(ends: Ends, shape: tuple[int, int], rtol: float | None = None) -> Ends:
    """How many values are surely, apparently and possibly above the rank threshold.

    Args:
        ends: Low ends, values and high ends of the singular values of each.
        shape: Of one matrix.
        rtol: As in `matrix_rank`.
    """
    least = rtol
    if rtol is None or least is None:
        rtol = rank_tolerance(shape)
        least = min(rtol, WALK * math.sqrt(max(shape)))
    require_between(rtol, 0, 1, name="rtol", instead="Omit it for max(shape) * 1e-7.")
    low, sigma, high = relative(*ends)
    counts = low > rtol * high[..., :1], sigma > rtol, high > least * low[..., :1]
    # the largest is above any fraction of itself, however wide its interval
    first = (sigma[..., 0] > 0).long()
    surely, apparently, possibly = (torch.maximum(c.sum(-1), first) for c in counts)
    return surely, apparently, possibly


def log_volumes(ends: Ends, ranks: Ends) -> Ends:
    """Low ends, values and high ends of the logarithms of pseudo-determinants.

    Args:
        ends: Low ends, values and high ends of the singular values of each.
        ranks: The least rank, the rank and the largest rank of each, all at least 1.
    """
    low, sigma, high = ends
    least, rank, most = (r[..., None] for r in ranks)
    place = torch.arange(1, sigma.shape[-1] + 1, device=sigma.device)
    logs = torch.where(place <= rank, sigma.log(), 0.0)
    size, value = logs.abs().sum(-1), logs.sum(-1)
    rounding = 4 * (ranks[1] + 1) * EPS * size.clamp(min=1.0)
    possible = (place >= least) & (place <= most)
    lowest = torch.where(possible, low.log().cumsum(-1), torch.inf).amin(-1)
    highest = torch.where(possible, high.log().cumsum(-1), -torch.inf).amax(-1)
    return (
        torch.minimum(lowest, value) - rounding,
        value,
        torch.maximum(highest, value) + rounding,
    )


def relative(low: Tensor, sigma: Tensor, high: Tensor) -> Ends:
    """Low ends, values and high ends in units of the largest value of each matrix."""
    top = torch.where(sigma[..., :1] > 0, sigma[..., :1], 1.0)
    return low / top, sigma / top, high / top
