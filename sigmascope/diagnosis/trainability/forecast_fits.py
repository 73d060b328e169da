"""The model of learning curves, fitted to curves whose end is known."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

import numpy as np
import scipy
from jaxtyping import Float64

from sigmascope.diagnosis.trainability.curve_shapes import logarithms, shape_of
from sigmascope.diagnosis.trainability.forecasts import RISK, ForecastModel
from sigmascope.gate import Refusal

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
