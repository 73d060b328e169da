"""What the first steps of training show, as numbers."""

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import final

import numpy as np
from jaxtyping import Float64

from sigmascope.core.guard import Refusal

# ------------------------------------------------------------------------------
# What the losses of the first steps look like.


FEWEST = 8  # losses from which something is foretold
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
    if len(finite) < FEWEST:
        raise Refusal(
            f"A forecast needs at least {FEWEST} finite losses, got {len(finite)} of "
            f"{len(losses)}. Train for some dozens of steps first."
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


WINDOW = 2  # rounds over which a curve is smoothed
LEAST = 1e-8  # of an alignment
MARGIN = 0.01  # from 0 and 1, of a share whose odds are taken
COARSE = 0.02  # the same, of a share of some hundred samples
FINE = 0.005  # the same, where it matters that next to nothing is left
UNDERWAY = 0.5  # of the way, from which on all networks that were trained did fit
BOLDER = 0.45  # log odds that a rate ten times as large is worth: it leaves a plateau sooner


@final
@dataclass(frozen=True, slots=True)
class Curve:
    """Training at one rate, round by round, until it was left or its loss was not finite.

    A round is eight steps of an eighth of the samples, or one of all where they belong together.

    Attributes:
        rate: The learning rate.
        losses: Mean over the steps of every round.
        told: Share of the variance of the targets that a linear map of the outputs explains.
        aligned: Coefficient of the targets in the outputs, both centred: 1 where outputs of unit
            scale have reached them; next to 0 where all samples get nearly the same output.
        finite: Whether every loss was.
        right: Share of right answers, 0 for as many as the most frequent class alone gets; None
            where the targets are not classes.
        steps: The loss before every step.
    """

    rate: float
    losses: tuple[float, ...]
    told: tuple[float, ...]
    aligned: tuple[float, ...]
    finite: bool
    right: tuple[float, ...] | None = None
    steps: tuple[float, ...] = ()

    @property
    def progress(self) -> float:
        """The most that two rounds in a row show of the targets, on a logarithmic scale.

        `log10 min(aligned, 1) + log(told / (1 - told))`: outputs must tell samples apart, and in
        the way of the targets. Their scale is in it up to one only, so that loud outputs are not
        taken for good ones.
        """
        each = [
            math.log10(min(max(c, LEAST), 1.0)) + log_odds(t)
            for c, t in zip(self.aligned, self.told, strict=True)
        ]
        return max(windows(each), default=math.log10(LEAST) + log_odds(0.0))

    @property
    def promise(self) -> float:
        """By which the rates that go on are chosen, on a logarithmic scale.

        Where nothing is learnt yet, a rate is lost that has made the outputs forget the targets,
        however far they moved; of those that have not, the largest leaves a plateau first. Its
        coefficients were chosen on the networks that the probability is fitted to.
        """
        way = self.told if self.right is None else self.right
        come = max(windows(way), default=0.0)
        last = self.told[-WINDOW:]
        left = sum(last) / len(last) if last else 0.0
        return log_odds(left, FINE) + log_odds(come, COARSE) + BOLDER * math.log10(self.rate)

    def reached(self, constant: float) -> tuple[float, ...]:
        """How far every round came: 0 is as far as the best constant output, 1 is all the way.

        Args:
            constant: Its loss. Of classes the right answers count; of values the loss that is gone,
                which for squared errors is the explained variance. Where the constant's loss is
                not above zero there is no such share, and `told` stands in.
        """
        if self.right is not None:
            return self.right
        if not 0 < constant < math.inf:
            return self.told
        return tuple(min(max(1 - loss / constant, 0.0), 1.0) for loss in self.losses)


@final
@dataclass(frozen=True, slots=True)
class EarlyTraining:
    """What a network does in its first steps.

    Attributes:
        curves: At each rate, the one with the most progress first.
        constant: Loss of the best constant output.
    """

    curves: tuple[Curve, ...]
    constant: float

    @property
    def left(self) -> float:
        """The least loss of two rounds in a row, over that of the constant output."""
        least = min((m for c in self.curves for m in windows(c.losses)), default=math.inf)
        return least / self.constant if self.constant > 0 else math.inf

    @property
    def reached(self) -> float:
        """How far the farthest two rounds in a row came, as `Curve.reached` has it."""
        shares = (s for c in self.curves for s in windows(c.reached(self.constant)))
        return max(shares, default=0.0)

    def with_curves(self, others: Iterable[Curve]) -> "EarlyTraining":
        """The same with some of its curves gone on; they are known by their rates."""
        new = {c.rate: c for c in others}
        curves = [new.get(c.rate, c) for c in self.curves]
        return EarlyTraining(tuple(sorted(curves, key=lambda c: -c.progress)), self.constant)

    def features(self) -> dict[str, float]:
        """The numbers from which a probability and a score are foretold."""
        return {
            "progress": self.curves[0].progress,
            "reached": log_odds(self.reached, COARSE),
            "underway": float(self.reached >= UNDERWAY),
        }


def windows(values: Sequence[float], size: int = WINDOW) -> Iterator[float]:
    """Means of consecutive windows."""
    for end in range(size, len(values) + 1):
        yield sum(values[end - size : end]) / size


def log_odds(share: float, margin: float = MARGIN) -> float:
    """Of a share, kept away from 0 and 1 by a margin."""
    return math.log((share + margin) / (1 - share + margin))
