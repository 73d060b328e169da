"""The power of width that a reading follows, from a few widths and seeds.

The idea: `log y = a + b log n + c (n/n₀)^(-1/2) + d (n/n₀)^(-1) + noise`, with `n₀` the smallest
width. What finite width does falls off by these two powers: the largest singular value of a random
matrix is of the size of `√n + √m`, a bias of size `1/√n` adds `1/n` to a variance. Of both no
more is known beforehand than that they are no larger than a half or so at `n₀`; they get a normal
law of that spread, so that the interval of `b` is as wide as they leave it. Two widths tell little,
four tell nearly all, and seeds tell how much is noise. The invariant: no more is said than the
readings leave; a verdict is the share that the law of `b` gives to a side, not its middle.

In theory `b` is a multiple of a half, and `falls`, `stays` and `grows` ask which of them it is.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from scipy.stats import t as student

from sigmascope.core.records import Estimate

Side = Literal["falls", "stays", "grows"]
USUAL = 64  # the width at which the corrections below are usual
ROOT, INVERSE = 0.3, 0.5  # spread of what finite width does there, in logarithms
HALVES = np.arange(-6, 7) / 2  # exponents that theory knows
LEAST = 1e-3  # noise of a logarithm, below which it is rounding
LEVEL = 0.95  # of intervals
SURE, ACCUSES = 0.9, 0.95  # certainty of a side: that nothing is wrong, and that something is
UNLIKELY = 0.01  # of the rest of a fit, where it is no power of width


@dataclass(frozen=True, slots=True)
class ScalingLaw:
    """The exponent of width, and how sure it is.

    Attributes:
        exponent: With its 95 % interval, over seeds and what finite width may do.
        falls: Share of certainty that it is -1/2 or less, if it is a multiple of a half.
        stays: That it is 0.
        grows: That it is 1/2 or more.
        nearest: The likeliest multiple of a half.
        fits: Whether a power of width with these corrections goes through the readings.
        noise: Of the logarithm of one reading.
        seeds: Readings of each width, at least.
    """

    exponent: Estimate
    falls: float
    stays: float
    grows: float
    nearest: float
    fits: bool
    noise: float
    seeds: int

    @property
    def says(self) -> str:
        """The exponent and its interval in words."""
        e = self.exponent
        return f"{e.value:+.2f} [{e.low:+.2f}, {e.high:+.2f}]"

    def is_sure(self, side: Side) -> bool:
        """Whether the exponent is on one side: with 90 % for 0, and 95 % for what accuses."""
        return float(getattr(self, side)) >= (SURE if side == "stays" else ACCUSES)

    def would_tell(self, axis: str) -> str:
        """How many more seeds would narrow the interval enough, if noise is what makes it wide."""
        reach = (self.exponent.high - self.exponent.low) / 2
        if self.seeds < 2:
            return "more seeds than one would tell"
        times = math.ceil((reach / 0.2) ** 2)
        if self.noise < 0.02 or not 1 < times <= 16:
            return f"larger {axis}s would tell"
        return f"{times} times the seeds would tell"


def power_law(
    readings: Mapping[int, Sequence[float]],
    *,
    usual: int = USUAL,
    root: float = ROOT,
    inverse: float = INVERSE,
    paired: bool = False,
) -> ScalingLaw | None:
    """The exponent of width.

    Args:
        readings: Positive numbers of every width, one a seed.
        usual: The width at which what finite width does is as large as usual.
        root: Of its part that falls with a root.
        inverse: Of its part that falls with the width itself.
        paired: Whether readings of one place share what a seed drew, which then cancels.

    Returns:
        None where there are fewer than two widths, or a reading is zero or not finite.
    """
    widths = sorted(readings)
    if len(widths) < 2 or not all(0 < v < math.inf for w in widths for v in readings[w]):
        return None
    logs = [np.log(np.asarray(readings[w], dtype=float)) for w in widths]
    counts = np.array([len(some) for some in logs])
    means = np.array([some.mean() for some in logs])
    free = int(counts.sum() - len(widths))
    rests = [some - some.mean() for some in logs]
    if paired and len(set(counts)) == 1:
        free -= int(counts[0]) - 1
        rests = np.stack(rests) - np.mean(rests, 0)
    spread = sum(float((rest**2).sum()) for rest in rests)
    # with one seed a width nothing is known of the noise: a tenth is taken, which is much
    noise = max(math.sqrt(spread / free) if free else 0.1, LEAST)
    free = max(free, 1)
    ratio = np.array(widths) / widths[0]
    larger = max(usual / widths[0], 1)
    shapes = np.stack([root * (ratio / larger) ** -0.5, inverse * larger / ratio], 1)
    weight = np.linalg.inv(np.diag(noise**2 / counts) + shapes @ shapes.T)
    both = np.stack([np.ones(len(widths)), np.log(ratio)], 1)
    spreads = np.linalg.inv(both.T @ weight @ both)
    fitted = spreads @ both.T @ weight @ means
    rest = means - both @ fitted
    reach = float(student.ppf((1 + LEVEL) / 2, free)) * math.sqrt(spreads[1, 1])
    b = float(fitted[1])
    # of every multiple of a half: how far from it the readings are, by the law of Student
    away = (HALVES - b) ** 2 / spreads[1, 1]
    chance = (1 + away / free) ** (-(free + 1) / 2)
    share = chance / chance.sum()
    excess = float(rest @ weight @ rest) / max(len(widths) - 2, 1)
    tail = (1 + excess / free) ** (-(free + 1) / 2)
    how = f"{len(widths)} widths, {int(counts.sum())} runs, with what finite width may do"
    return ScalingLaw(
        Estimate(b, b - reach, b + reach, how, 1 - LEVEL),
        float(share[HALVES < 0].sum()),
        float(share[HALVES == 0].sum()),
        float(share[HALVES > 0].sum()),
        float(HALVES[share.argmax()]),
        len(widths) < 3 or tail > UNLIKELY,
        noise,
        int(counts.min()),
    )
