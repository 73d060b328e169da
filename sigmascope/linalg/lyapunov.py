"""Lyapunov exponents: how fast products of random matrices stretch each direction."""

import math
from collections.abc import Callable, Sequence

import scipy
import torch
from jaxtyping import Float64
from torch import Tensor

from sigmascope.core.guard import Refusal
from sigmascope.core.records import Estimate

Frames = Float64[Tensor, "chains d k"]
STRETCHES = 32  # independent pieces, over all chains, from which the intervals are made
ROUNDING = 1e-12  # of a mean of logarithms


def lyapunov_exponents(
    step: Callable[[Frames], Frames],
    frames: Frames,
    *,
    layers: int,
    burn_in: int = 100,
) -> tuple[Estimate, ...]:
    """Growth per factor of the singular values of a product of random matrices.

    The frame is multiplied by one factor and orthonormalised again (QR) at every layer, so that
    nothing overflows and no direction is lost under a larger one; the mean of `log |R_ii|` is the
    i-th exponent.

    Args:
        step: Multiplies a frame, from the left, by the next factor of every chain.
        frames: Where to start, one frame of `k` directions in `d` dimensions for each independent
            chain; of full column rank.
        layers: Factors to average over, at least 32 / chains.
        burn_in: Factors before that, in which the frame turns into the directions of the product.

    Returns:
        `k` exponents in natural logarithms, in descending order up to their error, with intervals
        at 95 % over the chains and the stretches of time.

    Raises:
        Refusal: If there are fewer layers than stretches, or a frame loses a direction.

    Source:
        Benettin et al. 1980; Daneshmand et al. 2020, Lemma 3.
    """
    pieces = max(1, math.ceil(STRETCHES / len(frames)))
    if layers < pieces:
        raise Refusal(
            f"`layers` must be {pieces} or more to give an interval with {len(frames)} chains, "
            f"got {layers}. Ask for more layers, or more chains."
        )
    frames = torch.linalg.qr(frames)[0]
    for _ in range(burn_in):
        frames = torch.linalg.qr(step(frames))[0]
    sums = frames.new_zeros(pieces, len(frames), frames.shape[-1])
    sizes = frames.new_zeros(pieces, 1)
    for layer in range(layers):
        frames, R = torch.linalg.qr(step(frames))
        piece = layer * pieces // layers
        sums[piece] += R.diagonal(dim1=-2, dim2=-1).abs().log()
        sizes[piece] += 1
    if not bool(sums.isfinite().all()):
        raise Refusal(
            "Every factor must be invertible and finite, got one that takes a direction to zero. "
            "Leave out the layers that drop dimensions, or ask for fewer directions."
        )
    return tuple(ratio_average(s.T, sizes.expand_as(s).T) for s in sums.unbind(-1))


def zero_exponents(exponents: Sequence[Estimate]) -> Estimate:
    """How many exponents are zero: directions that neither grow nor die, where none can grow.

    An exponent counts as zero within 3 standard errors below it, and as surely negative beyond 6.
    It is surely zero only if it is resolved finely enough to be told from a small negative one: to
    a quarter of the least rate that is surely negative, and to an eighth of the mean distance of
    exponents that are spread evenly down to the fastest.

    Args:
        exponents: From `lyapunov_exponents`, of a chain whose states stay bounded.

    Returns:
        A count; its ends leave out exponents that are known too coarsely to be surely zero, and
        add those that are not surely negative.

    Source:
        Oseledets 1968; of the chain of Daneshmand et al. 2020, Eq. (1), it is the rank that
        survives at any depth.
    """
    errors = [(e.high - e.low) / 4 + ROUNDING for e in exponents]
    below = [-e.value / error for e, error in zip(exponents, errors, strict=True)]
    loss = min((-e.value for e, b in zip(exponents, below, strict=True) if b > 6), default=math.inf)
    reach = [abs(e.value) + 3 * error for e, error in zip(exponents, errors, strict=True)]
    zero = [r for r, b in zip(reach, below, strict=True) if b <= 3]
    near = [b for b in below if b <= 6]
    fastest = max((-e.value for e in exponents), default=0.0)
    sure = [r for r in zero if r < min(loss / 4, fastest / (8 * len(exponents)))]
    how, risk = "3 standard errors below zero", max((e.risk for e in exponents), default=0.0)
    return Estimate(float(len(zero)), float(len(sure)), float(len(near)), how, risk)


def collapse_depth(gap: Estimate, *, tolerance: float) -> Estimate:
    """Layers until the second singular value is below `tolerance` times the first.

    Args:
        gap: First exponent less the second, per layer.
        tolerance: In `(0, 1)`, e.g. `width * 1e-7` for the rule of numerical rank.

    Returns:
        `log(1 / tolerance) / gap`; infinite where the gap may be zero.

    Source:
        Daneshmand et al. 2020, Lemma 3.
    """
    if not 0 < tolerance < 1:
        raise Refusal(
            f"`tolerance` must be between 0 and 1, got {tolerance}. It is the ratio of singular "
            "values that counts as collapsed, e.g. 1e-5."
        )
    ends = [
        math.log(1 / tolerance) / g if g > 0 else math.inf for g in (gap.high, gap.value, gap.low)
    ]
    return Estimate(ends[1], ends[0], ends[2], f"log(1/{tolerance:.3g}) / gap", gap.risk)


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
    variance = float(influence.square().sum()) / (count - 1) / count
    if influence.shape[1] >= 3:  # stretches that are correlated widen it
        whole = float(influence.square().mean())
        lagged = float((influence[:, 1:] * influence[:, :-1]).mean())
        correlation = min(max(lagged / whole, 0.0), 0.95) if whole > 0 else 0.0
        variance *= (1 + correlation) / (1 - correlation)
    reach = float(scipy.special.stdtrit(count - 1, 1 - RISK / 2)) * math.sqrt(variance)
    how = f"{over.shape[0]} chains, {over.shape[1]} stretches each"
    return Estimate(value, value - reach, value + reach, how, RISK)
