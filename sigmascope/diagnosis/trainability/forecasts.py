"""The loss after the planned steps, from the losses of the first ones."""

import json
import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path
from typing import Any, final

import numpy as np
from scipy.optimize import nnls
from sklearn.linear_model import QuantileRegressor

from sigmascope.gate import Mark, Refusal, write_text
from sigmascope.records import Estimate

KEPT = Path(__file__).with_name("forecasts.json")
MARK = Mark(rb'\{\n "drift": \[.*\n "spread": \[')
LEAST = 8  # losses from which something is foretold
TAIL = 10  # the level of a curve is the mean of its last tenth
WINDOW = 20  # what is foretold is the mean loss of the last twentieth of the planned steps
FARTHEST = 14.0  # of a logarithm of a loss over that of the best constant
SHARES = 201  # of the errors, evenly spaced, that are kept
RISK = 0.1


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

    def drift(self) -> tuple[float, ...]:
        """What the further change of the level, for an e-fold of steps, is made of."""
        down, up = min(self.trend, 0.0), max(self.trend, 0.0)
        above = min(max(self.level, 0.0), 3.0)
        return (1.0, down, up, above, min(self.level, 0.0), min(self.before, 0.0))

    def spread(self, reach: float) -> tuple[float, ...]:
        """What the error at that many e-folds of steps grows with; none is below zero."""
        start = self.noise / math.sqrt(max(1, self.steps // TAIL))
        changing = abs(self.trend) + abs(self.before)
        return (1.0, start, reach, reach * abs(self.trend), reach * changing, reach * self.noise)


@final
@dataclass(frozen=True, slots=True)
class ForecastModel:
    """A model of learning curves, small enough to read.

    Attributes:
        drift: Coefficients of `Shape.drift`.
        spread: Coefficients of `Shape.spread`, none below zero.
        errors: Errors over their spread at evenly spaced shares of the fitted curves, ascending.
        trained: How many curves it was fitted to.
    """

    drift: tuple[float, ...]
    spread: tuple[float, ...]
    errors: tuple[float, ...]
    trained: int

    def ends(self, shape: Shape, planned: int, risk: float) -> tuple[float, float, float]:
        """Value, low and high logarithm of the loss after the planned steps."""
        reach = math.log(planned / shape.steps)
        change = reach * math.fsum(a * b for a, b in zip(self.drift, shape.drift(), strict=True))
        size = math.fsum(a * b for a, b in zip(self.spread, shape.spread(reach), strict=True))
        low, high = (float(np.quantile(self.errors, q)) for q in (risk / 2, 1 - risk / 2))
        value = shape.level + change
        return value, value + min(low, 0.0) * size, value + max(high, 0.0) * size

    def save(self, file: Path) -> None:
        """Write it as JSON, a line for each attribute."""
        lines = [f" {json.dumps(k)}: {json.dumps(v)}" for k, v in asdict(self).items()]
        write_text(file, "{\n" + ",\n".join(lines) + "\n}\n", mark=MARK)

    @classmethod
    def read(cls, file: Path) -> "ForecastModel":
        """Read what `save` wrote."""
        kept: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
        lists = {k: tuple(v) for k, v in kept.items() if isinstance(v, list)}
        return cls(**{**kept, **lists})


@final
@dataclass(frozen=True, slots=True)
class Example:
    """A curve that was trained to its end.

    Attributes:
        losses: Of its first steps.
        planned: After how many steps the end was read.
        constant: Loss of the best constant output.
        reached: The mean loss of the last twentieth of the planned steps.
    """

    losses: tuple[float, ...]
    planned: int
    constant: float
    reached: float


def forecast(
    losses: Sequence[float],
    planned: int,
    *,
    constant: float,
    floor: float = 0.0,
    risk: float = RISK,
    by: ForecastModel | None = None,
) -> Estimate:
    """The training loss after the planned steps, from the losses of the first ones.

    Over the logarithm of the steps, the logarithm of the loss goes on as a share of its last trend
    says, the less the farther it is from that of a constant: a power law that was bent as the
    curves of 250 trainings bend. How far such forecasts miss, in parts of a spread that grows with
    the steps ahead, the trend and the noise, gives the interval (`docs/trainability.md`).

    Args:
        losses: Before every step so far, of minibatches or all samples. Those that are not finite
            are left out; if the last one is not, neither will the others be.
        planned: Steps of the whole training, at the same rate.
        constant: Loss of the best constant output, by which losses are measured.
        floor: The least that the loss can be.
        risk: Chance that the interval misses, on curves of networks like those it was fitted to.
        by: Another model, from `fit_forecasts`.

    Returns:
        The mean loss of the last twentieth of the planned steps, in the unit of the losses;
        infinite where training has failed. Where the planned steps are done it is the mean of those
        that were seen, with twice its standard error.

    Raises:
        Refusal: If there are fewer than 8 finite losses, `planned` is below 1, the constant's loss
            is not above the floor, or the risk is not between 0 and 1.

    Cost: none of the model; some microseconds a loss.

    Source:
        That losses fall as powers of the steps: Hestness et al. 2017; intervals from the errors on
        other curves: Vovk, Gammerman & Shafer 2005 (conformal prediction).
    """
    _require(planned, constant, floor, risk)
    if len(losses) and not math.isfinite(losses[-1]):
        return Estimate.exactly(math.inf, how=f"the loss is not finite after {len(losses)} steps")
    if planned <= len(losses):
        return _seen(losses, planned)
    shape = shape_of(losses, constant=constant, floor=floor)
    ends = (by or default_model()).ends(shape, planned, risk)
    value, low, high = (floor + (constant - floor) * _exp(end) for end in ends)
    how = f"learning curve of {len(losses)} steps, carried on to {planned}"
    return Estimate(value, min(low, value), max(high, value), how, risk)


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
    rest = _logs((values - floor) / (constant - floor))
    half, tail = len(rest) // 2, max(2, len(rest) // TAIL)
    trend, noise = _line(np.log(steps[half:]), rest[half:])
    before, _ = _line(np.log(steps[:half]), rest[:half])
    level = _logs((values[-tail:].mean(keepdims=True) - floor) / (constant - floor))
    return Shape(float(level[0]), trend, before, noise, len(losses))


def fit_forecasts(examples: Sequence[Example]) -> ForecastModel:
    """Fit the model to curves whose end is known.

    Args:
        examples: Of many networks; several of one curve, with more and fewer known steps, may be.

    Raises:
        Refusal: If there are fewer than 20.
    """
    if len(examples) < WINDOW:
        raise Refusal(
            f"A forecast is fitted to at least {WINDOW} curves, got {len(examples)}. Train more."
        )
    shapes = [shape_of(e.losses, constant=e.constant) for e in examples]
    reach = np.log([e.planned / s.steps for e, s in zip(examples, shapes, strict=True)])
    ends = _logs(np.array([e.reached / e.constant for e in examples]))
    change = ends - np.array([s.level for s in shapes])
    parts = reach[:, None] * np.array([s.drift() for s in shapes])
    median = QuantileRegressor(quantile=0.5, alpha=1e-4, fit_intercept=False, solver="highs")
    drift = median.fit(parts, change).coef_
    off = change - parts @ drift
    sizes = np.array([s.spread(r) for s, r in zip(shapes, reach.tolist(), strict=True)])
    spread = nnls(sizes, np.abs(off))[0]
    errors = np.quantile(off / (sizes @ spread), np.linspace(0, 1, SHARES))
    lists = (tuple(round(float(v), 6) for v in each) for each in (drift, spread, errors))
    return ForecastModel(*lists, trained=len(examples))


@cache
def default_model() -> ForecastModel:
    """The model that is kept here: `benchmarks/forecasts.py` made it."""
    return ForecastModel.read(KEPT)


def window_of(planned: int) -> int:
    """How many of the last steps the loss at the end is the mean of."""
    return max(1, planned // WINDOW)


def _require(planned: int, constant: float, floor: float, risk: float) -> None:
    if planned < 1 or not 0 < risk < 1:
        raise Refusal(
            f"A forecast is for 1 step or more, at a risk between 0 and 1, got {planned} steps and "
            f"a risk of {risk:g}. Say how long you will train."
        )
    if not floor < constant < math.inf:
        raise Refusal(
            f"The loss of the best constant must be finite and above the floor of the loss, "
            f"{floor:g}, got {constant:g}. Shift the loss, or say what its floor is."
        )


def _seen(losses: Sequence[float], planned: int) -> Estimate:
    """What was reached, of the steps that are done."""
    last = [v for v in losses[planned - window_of(planned) : planned] if math.isfinite(v)]
    if not last:
        return Estimate.exactly(math.inf, how=f"the loss is not finite at step {planned}")
    mean = math.fsum(last) / len(last)
    error = float(np.std(last, ddof=1)) / math.sqrt(len(last)) if len(last) > 1 else 0.0
    return Estimate.within(mean, 2 * error, how="measured")


def _line(x: np.ndarray, y: np.ndarray) -> tuple[float, float]:
    """Slope of the least squares line, and the spread about it."""
    x = x - x.mean()
    slope = float(x @ y / (x @ x))
    return slope, float(np.std(y - y.mean() - slope * x))


def _logs(rest: np.ndarray) -> np.ndarray:
    """Logarithms, no farther from zero than float arithmetic of the losses can tell."""
    return np.log(np.clip(rest, math.exp(-FARTHEST), math.exp(FARTHEST)))


def _exp(x: float) -> float:
    return math.exp(max(min(x, 2 * FARTHEST), -2 * FARTHEST))
