"""The loss after the planned steps, from the losses of the first ones."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import final

import numpy as np
import scipy
from jaxtyping import Float64

from sigmascope.core.guard import Refusal
from sigmascope.core.records import Estimate
from sigmascope.diagnosis.trainability.curves import FARTHEST, Shape, logarithms, shape_of
from sigmascope.diagnosis.trainability.model import Kept

KEPT = Path(__file__).with_name("forecasts.json")
WINDOW = 20  # what is foretold is the mean loss of the last twentieth of the planned steps
RISK = 0.1


@final
@dataclass(frozen=True, slots=True)
class ForecastModel(Kept):
    """A model of learning curves, small enough to read.

    Attributes:
        drift: Coefficients of `Shape.drift`.
        below: Coefficients of `Shape.spread` for ends below the forecast, none below zero.
        above: The same for ends above it.
        errors: At evenly spaced shares of the curves, errors over their spread, ascending; each is
            the farthest from zero of those of the kinds that a fit to the others was tried on.
        trained: How many curves it was fitted to.
    """

    drift: tuple[float, ...]
    below: tuple[float, ...]
    above: tuple[float, ...]
    errors: tuple[float, ...]
    trained: int

    def ends(self, shape: Shape, planned: int, risk: float) -> tuple[float, float, float]:
        """Value, low and high logarithm of the loss after the planned steps."""
        reach = math.log(planned / shape.steps)
        value = shape.level + _dot(self.drift, shape.drift(reach))
        low, high = (float(np.quantile(self.errors, q)) for q in (risk / 2, 1 - risk / 2))
        down, up = (_dot(each, shape.spread(reach)) for each in (self.below, self.above))
        return value, value + min(low, 0.0) * down, value + max(high, 0.0) * up


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
    if len(losses) and not math.isfinite(losses[-1]):
        return Estimate.exactly(math.inf, how=f"the loss is not finite after {len(losses)} steps")
    if planned <= len(losses):
        # what was reached, of the steps that are done
        last = [v for v in losses[planned - window_of(planned) : planned] if math.isfinite(v)]
        if not last:
            return Estimate.exactly(math.inf, how=f"the loss is not finite at step {planned}")
        mean = math.fsum(last) / len(last)
        error = float(np.std(last, ddof=1)) / math.sqrt(len(last)) if len(last) > 1 else 0.0
        return Estimate.within(mean, 2 * error, how="measured")
    shape = shape_of(losses, constant=constant, floor=floor)
    ends = (by or default_model()).ends(shape, planned, risk)
    value, low, high = (
        floor + (constant - floor) * math.exp(max(min(end, 2 * FARTHEST), -2 * FARTHEST))
        for end in ends
    )
    how = f"learning curve of {len(losses)} steps, carried on to {planned}"
    return Estimate(value, min(low, value), max(high, value), how, risk)


@cache
def default_model() -> ForecastModel:
    """The model that is kept here: `benchmarks/forecasts.py` made it."""
    return ForecastModel.read(KEPT)


def window_of(planned: int) -> int:
    """How many of the last steps the loss at the end is the mean of."""
    return max(1, planned // WINDOW)


def _dot(a: Sequence[float], b: Sequence[float]) -> float:
    return math.fsum(x * y for x, y in zip(a, b, strict=True))


# ------------------------------------------------------------------------------
# The model of learning curves, fitted to curves whose end is known.


FEWEST = 20  # curves
SHARES = 201  # of the errors, evenly spaced, that are kept


@final
@dataclass(frozen=True, slots=True)
class Example:
    """A curve that was trained to its end.

    Attributes:
        losses: Of its first steps.
        planned: After how many steps the end was read.
        constant: Loss of the best constant output.
        reached: The mean loss of the last twentieth of the planned steps; infinite if it failed.
        kinds: What it is a curve of (family, data, …): each kind is left out of a fit once.
    """

    losses: tuple[float, ...]
    planned: int
    constant: float
    reached: float
    kinds: tuple[str, ...] = ()


def fit_forecasts(examples: Sequence[Example]) -> ForecastModel:
    """Fit the model to curves whose end is known.

    Args:
        examples: Of many networks; several of one curve, with more and fewer known steps, may be.

    Raises:
        Refusal: If there are fewer than 20.
    """
    if len(examples) < FEWEST:
        raise Refusal(
            f"A forecast is fitted to at least {FEWEST} curves, got {len(examples)}. Train more."
        )
    shapes = [shape_of(e.losses, constant=e.constant) for e in examples]
    reach = [math.log(e.planned / s.steps) for e, s in zip(examples, shapes, strict=True)]
    ends = logarithms(np.array([e.reached / e.constant for e in examples]))
    curves = _Curves(
        np.array([s.drift(r) for s, r in zip(shapes, reach, strict=True)]),
        np.array([s.spread(r) for s, r in zip(shapes, reach, strict=True)]),
        ends - np.array([s.level for s in shapes]),
    )
    every = np.ones(len(examples), dtype=bool)
    kinds = sorted({kind for e in examples for kind in e.kinds})
    tried = [np.array([kind in e.kinds for e in examples]) for kind in kinds]
    shares = np.linspace(0, 1, SHARES)
    each = [np.quantile(curves.errors(~on, on), shares) for on in tried if 0 < on.sum() < len(on)]
    each = each or [np.quantile(curves.errors(every, every), shares)]
    errors = np.where(shares < 1 / 2, np.min(each, axis=0), np.max(each, axis=0))
    lists = (tuple(round(float(v), 6) for v in part) for part in (*curves.fit(every), errors))
    return ForecastModel(*lists, trained=len(examples))


@dataclass(frozen=True, slots=True)
class _Curves:
    """Examples as rows of numbers: parts of the drift, parts of the spread, and the change."""

    parts: Float64[np.ndarray, "n k"]
    sizes: Float64[np.ndarray, "n m"]
    change: Float64[np.ndarray, " n"]

    def fit(self, on: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Drift, and spread below and above it, of some examples."""
        from sklearn.linear_model import QuantileRegressor

        median = QuantileRegressor(quantile=0.5, alpha=1e-4, fit_intercept=False, solver="highs")
        drift = median.fit(self.parts[on], self.change[on]).coef_
        off = self.change[on] - self.parts[on] @ drift
        return drift, _end(self.sizes[on], -off), _end(self.sizes[on], off)

    def errors(self, fitted: np.ndarray, on: np.ndarray) -> np.ndarray:
        """Of some examples, over their spread, by a fit to others."""
        drift, below, above = self.fit(fitted)
        off = self.change[on] - self.parts[on] @ drift
        return off / np.where(off < 0, self.sizes[on] @ below, self.sizes[on] @ above)


def _end(sizes: np.ndarray, off: np.ndarray) -> np.ndarray:
    """Coefficients, none below zero, of the end that 19 of 20 errors keep below.

    Source:
        Koenker & Bassett 1978, quantile regression as a linear programme.
    """
    n, k = sizes.shape
    share = 1 - RISK / 2
    costs = np.concatenate([np.full(k, 1e-3 * n), np.full(n, share), np.full(n, 1 - share)])
    equal = np.hstack([sizes, np.eye(n), -np.eye(n)])
    found = scipy.optimize.linprog(costs, A_eq=equal, b_eq=off, bounds=(0, None))
    return np.maximum(found.x[:k], 1e-6)
