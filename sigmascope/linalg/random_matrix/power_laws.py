"""Whether the tail of a spectrum is a power law, with which exponent, and how sure that is.

The idea: the threshold at which the tail begins is the one from which on a power law fits best; how
well it fits is judged against samples that are power laws beyond it, each fitted in the same way,
threshold included. The invariant: data and samples pass the same function, so that the p-value
knows of every freedom that the fit has.
"""

from dataclasses import dataclass
from functools import partial

import scipy
import torch
from jaxtyping import Float64
from torch import Tensor

from sigmascope.records import Estimate

SAMPLES = 100
REJECTED = 0.1  # below this p-value (Clauset, Shalizi & Newman 2009, section 4)
THRESHOLDS = 32  # candidates, spread evenly over the logarithm of the length of the tail
SHORTEST = 25  # values in a tail
FEWEST = 50  # values in all
SPAN = 10.0  # largest over smallest of the tail, below which nothing tells a power law apart
RISK = 0.05


@dataclass(frozen=True, slots=True)
class PowerLaw:
    """A fit of `p(x) ∝ x^-α` from a threshold on.

    Attributes:
        exponent: `α`, given the threshold.
        threshold: Where the tail begins.
        tail: How many values are in it.
        distance: Between the tail and the law (Kolmogorov).
        p: Chance that samples of the law lie farther from their own fit; None where the span of the
            tail refuses the fit before any is drawn.
        refused: Why no exponent should be read off; empty where it may.
    """

    exponent: Estimate
    threshold: float
    tail: int
    distance: float
    p: Estimate | None
    refused: str


def power_law(
    values: Float64[Tensor, " n"], *, generator: torch.Generator | None = None
) -> PowerLaw | None:
    """The power law that the tail of positive values follows best, and whether it does.

    Args:
        values: Squared singular values; zeros are left out.
        generator: Source of the samples for the p-value.

    Returns:
        The fit; None for fewer than 50 positive values, of which no fit means anything.

    Source:
        Clauset, Shalizi & Newman 2009, Eq. (3.1) and sections 3.3 and 4.1. The interval is the
        wider of that of the gamma law, which the sum of logarithms has beyond a fixed threshold,
        and of that of the samples, each with a threshold of its own.

    Cost: one fit; a hundred more of as many values, in one go, where the tail is wide enough.

    Example:
        >>> u = (torch.arange(400, dtype=torch.float64) + 0.5) / 400
        >>> fit = power_law(u ** (-1 / 1.5), generator=torch.Generator().manual_seed(0))
        >>> round(fit.exponent.value, 1), fit.refused
        (2.5, '')
    """
    x = values[values > 0].sort(descending=True).values
    if len(x) < FEWEST:
        return None
    exponents, tails, distances = _fit(x.log()[None])
    exponent, tail, distance = float(exponents[0]), int(tails[0]), float(distances[0])
    span = float(x[0] / x[tail - 1])
    told = partial(PowerLaw, threshold=float(x[tail - 1]), tail=tail, distance=distance)
    if span < SPAN:  # whatever samples of the law would say
        why = f"its tail spans a factor of {span:.3g} only, over which any law looks straight"
        return told(_interval(exponent, tail, None), p=None, refused=why)
    again, _, apart = _fit(_samples(x, exponent, tail, generator))
    farther = int((apart >= distance).sum())
    p = farther / SAMPLES
    why = f"samples of the best power law lie closer to it than these values (p = {p:.2g})"
    return told(
        _interval(exponent, tail, again),
        p=Estimate(p, *_chances(farther), f"{SAMPLES} samples of the fit", RISK),
        refused=why if p < REJECTED else "",
    )


def _fit(logs: Float64[Tensor, "b n"]) -> tuple[Tensor, Tensor, Tensor]:
    """Exponent, length of the tail and distance of the best fit, of each descending row."""
    n = logs.shape[1]
    sums = logs.cumsum(1)
    found: list[tuple[Tensor, Tensor]] = []
    lengths = _lengths(n)
    middles = torch.arange(n, dtype=logs.dtype) + 0.5
    for k in lengths:
        least = logs[:, k - 1 : k]
        slope = k / (sums[:, k - 1 : k] - k * least).clamp_min(1e-300)  # α - 1
        # the share beyond each value, less the middle of the step that is counted there
        gaps = (logs[:, :k] - least).mul_(-slope).exp_().sub_(middles[:k] / k)
        low, high = gaps.aminmax(dim=1)
        found.append((slope[:, 0], torch.maximum(-low, high) + 0.5 / k))
    distances = torch.stack([gap for _, gap in found], dim=1)
    best = distances.argmin(1, keepdim=True)
    slopes = torch.stack([slope for slope, _ in found], dim=1).gather(1, best)[:, 0]
    tails = torch.tensor(lengths)[best[:, 0]]
    return 1 + slopes, tails, distances.gather(1, best)[:, 0]


def _lengths(n: int) -> list[int]:
    spaced = torch.logspace(0, 1, THRESHOLDS, base=n / SHORTEST, dtype=torch.float64) * SHORTEST
    return sorted({min(n, round(float(k))) for k in spaced})


def _samples(
    x: Float64[Tensor, " n"], exponent: float, tail: int, generator: torch.Generator | None
) -> Float64[Tensor, "b n"]:
    """Logarithms of samples: the law beyond the threshold, the values themselves below it."""
    n = len(x)
    draw = lambda: torch.rand(SAMPLES, n, generator=generator, dtype=x.dtype)
    logs = x.log()
    beyond = logs[tail - 1] - draw().clamp_min(1e-300).log() / (exponent - 1)
    if tail == n:
        return beyond.sort(dim=1, descending=True).values
    body = logs[tail:][(draw() * (n - tail)).long().clamp_max(n - tail - 1)]
    mixed = torch.where(draw() * n < tail, beyond, body)
    return mixed.sort(dim=1, descending=True).values


def _interval(exponent: float, tail: int, again: Float64[Tensor, " b"] | None) -> Estimate:
    """By the gamma law beyond the threshold, and by samples with their own if drawn: the wider."""
    sides = (RISK / 2, 1 - RISK / 2)
    fixed = tuple(
        1 + (exponent - 1) * float(scipy.special.gammaincinv(tail, q)) / tail for q in sides
    )
    free = fixed
    if again is not None:
        ends = torch.tensor([1 - q for q in sides], dtype=again.dtype)
        free = (2 * exponent - again.quantile(ends)).clamp_min(1.0).tolist()
    low, high = zip(fixed, free, strict=True)
    how = f"maximum likelihood beyond the {tail} largest"
    return Estimate(exponent, min(*low, exponent), max(*high, exponent), how, RISK)


def _chances(hits: int) -> tuple[float, float]:
    """Clopper and Pearson's interval."""
    missed = SAMPLES - hits
    low = float(scipy.special.betaincinv(hits, missed + 1, RISK / 2)) if hits else 0.0
    high = float(scipy.special.betaincinv(hits + 1, missed, 1 - RISK / 2)) if missed else 1.0
    return low, high
