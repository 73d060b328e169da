"""Means over time of processes that remember, with intervals that know it."""

import math

import torch
from jaxtyping import Float64
from scipy import stats
from torch import Tensor

from sigmascope.linalg.estimates import Estimate

RISK = 0.05  # of every interval below

Means = Float64[Tensor, "chains batches"]


def time_average(means: Means) -> Estimate:
    """The mean of a stationary process, from means over consecutive stretches of several chains.

    Stretches of one chain that still remember one another widen the interval: the variance grows
    by `(1 + ρ) / (1 - ρ)` with their correlation ρ at lag one, where that is positive.

    Args:
        means: Mean over each stretch; chains are independent, stretches of equal length.

    Returns:
        The mean and its Student interval at 95 %; without bounds where there is a single stretch.

    Source:
        Student 1908; correlated stretches as in Geyer 1992, Sec. 3.
    """
    return ratio_average(means, torch.ones_like(means))


def ratio_average(over: Means, under: Means) -> Estimate:
    """The quotient of two means, from their stretches; the interval is the jackknife's.

    With sums over stretches of unequal length above, and the lengths below, this is their mean.

    Args:
        over: Means, or sums, of the numerator, as for `time_average`.
        under: The same of the denominator, over the same stretches; their sum is not zero.

    Source:
        Tukey 1958 (jackknife).
    """
    count = over.numel()
    value = float(over.mean() / under.mean())
    if count < 2:
        return Estimate(value, -math.inf, math.inf, "one stretch", RISK)
    left_out = ((over.sum() - over) / (under.sum() - under)).reshape(over.shape)
    influence = -(count - 1) * (left_out - left_out.mean())  # of each stretch on the quotient
    variance = float(influence.square().sum()) / (count - 1) / count * _memory(influence)
    reach = float(stats.t.ppf(1 - RISK / 2, count - 1)) * math.sqrt(variance)
    how = f"{over.shape[0]} chains, {over.shape[1]} stretches each"
    return Estimate(value, value - reach, value + reach, how, RISK)


def _memory(influence: Means) -> float:
    """By how much correlated stretches widen a variance; 1 where they are not correlated."""
    if influence.shape[1] < 3:
        return 1.0
    whole = float(influence.square().mean())
    lagged = float((influence[:, 1:] * influence[:, :-1]).mean())
    correlation = min(max(lagged / whole, 0.0), 0.95) if whole > 0 else 0.0
    return (1 + correlation) / (1 - correlation)
