"""What the losses of the first steps look like."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

import numpy as np
from jaxtyping import Float64

from sigmascope.gate import Refusal

LEAST = 8  # losses from which something is foretold
TAIL = 10  # the level of a curve is the mean of its last tenth
FARTHEST = 14.0  # of a logarithm of a loss over that of the best constant


@final
@dataclass(frozen=True, slots=True)
class Shape:
    """What the losses of the first steps look like, in logarithms over the constant's loss.

    Attributes:
        level: At the end.
        trend: By how much it changes while the steps grow e-fold, over the second half.
        before: The same over the first half.
        noise: Spread of the single losses of the second half about their trend.
        steps: How many there are.
    """

    level: float
    trend: float
    before: float
    noise: float
    steps: int

    def drift(self, reach: float) -> tuple[float, ...]:
        """What the change of the level over so many e-folds of steps is made of.

        Some of it goes on as a power of the steps, some wears off: steep falls do, of which only a
        slope of one goes on.
        """
        worn = -math.expm1(-reach)
        down, up = min(self.trend, 0.0), max(self.trend, 0.0)
        above, below = min(max(self.level, 0.0), 3.0), min(self.level, 0.0)
        parts = (down, up, above, below, min(self.before, 0.0))
        return (reach, reach * max(down, -1.0), *(worn * part for part in parts))

    def spread(self, reach: float) -> tuple[float, ...]:
        """What the error over so many e-folds of steps grows with; none is below zero."""
        start = self.noise / math.sqrt(max(1, self.steps // TAIL))
        return (1.0, start, reach, reach * max(-self.trend, 0.0), reach * self.noise)


def shape_of(losses: Sequence[float], *, constant: float, floor: float = 0.0) -> Shape:
    """The shape of a curve; losses that are not finite are left out.

    Raises:
        Refusal: If fewer than 8 are left.
    """
    finite = [(i + 1, v) for i, v in enumerate(losses) if math.isfinite(v)]
    if len(finite) < LEAST:
        raise Refusal(
            f"A forecast needs at least {LEAST} finite losses, got {len(finite)} of {len(losses)}. "
            "Train for some dozens of steps first."
        )
    steps, values = (np.array(column, dtype=np.float64) for column in zip(*finite, strict=True))
    rest = logarithms((values - floor) / (constant - floor))
    half, tail = len(rest) // 2, max(2, len(rest) // TAIL)
    trend, noise = _line(np.log(steps[half:]), rest[half:])
    before, _ = _line(np.log(steps[:half]), rest[:half])
    level = logarithms((values[-tail:].mean(keepdims=True) - floor) / (constant - floor))
    return Shape(float(level[0]), trend, before, noise, len(losses))


def _line(x: np.ndarray, y: np.ndarray) -> tuple[float, float]:
    """Slope of the least squares line, and the spread about it."""
    x = x - x.mean()
    slope = float(x @ y / (x @ x))
    return slope, float(np.std(y - y.mean() - slope * x))


def logarithms(rest: Float64[np.ndarray, " n"]) -> Float64[np.ndarray, " n"]:
    """Logarithms, no farther from zero than float arithmetic of the losses can tell."""
    return np.log(np.clip(rest, math.exp(-FARTHEST), math.exp(FARTHEST)))
