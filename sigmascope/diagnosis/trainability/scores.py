"""How far training will come, from a probe at initialisation."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import final

import numpy as np

from sigmascope.core.guard import Refusal
from sigmascope.core.records import Estimate
from sigmascope.diagnosis.trainability.curves import COARSE, log_odds
from sigmascope.diagnosis.trainability.model import Kept

KEPT = Path(__file__).with_name("scores.json")
RISK = 0.1
FEWEST = 20  # networks
PENALTY = 1e-3  # on the sum of the slopes, in standard deviations of their features


@final
@dataclass(frozen=True, slots=True)
class ScoreModel(Kept):
    """Three lines through the log odds of what trained networks reached, small enough to read.

    Attributes:
        names: Of the features of a `Probe`.
        low: Slopes, by feature, and offset of the log odds that 19 of 20 are above.
        middle: Of those that half are above.
        high: Of those that 1 of 20 is above.
        trained: How many networks it was fitted to.
    """

    names: tuple[str, ...]
    low: tuple[float, ...]
    middle: tuple[float, ...]
    high: tuple[float, ...]
    trained: int

    def forecast(self, features: Mapping[str, float]) -> Estimate:
        """The share that training will reach: 0 is the best constant output, 1 is all the way."""
        x = [*(features[name] for name in self.names), 1.0]
        ends = (math.fsum(a * b for a, b in zip(c, x, strict=True))
                for c in (self.low, self.middle, self.high))  # fmt: skip
        # of log odds that were kept `COARSE` away from 0 and 1
        wide = ((1 + 2 * COARSE) / (1 + math.exp(-max(min(end, 50.0), -50.0))) for end in ends)
        low, value, high = (min(max(share - COARSE, 0.0), 1.0) for share in wide)
        how = f"quantile regression of probing steps, fitted to {self.trained} networks"
        return Estimate(value, min(low, value), max(high, value), how, RISK)


def fit_scores(
    features: Sequence[Mapping[str, float]],
    reached: Sequence[float],
    *,
    weights: Sequence[float] | None = None,
) -> ScoreModel:
    """Fit the model to networks whose training was run.

    Args:
        features: Of their probes.
        reached: The share that each came to in the end, from 0 (the best constant) to 1.
        weights: How often each counts; once if not given.

    Raises:
        Refusal: If the two differ in number, or there are fewer than 20.

    Source:
        Koenker & Bassett 1978, quantile regression.
    """
    from sklearn.linear_model import QuantileRegressor

    if len(features) != len(reached) or len(features) < FEWEST:
        raise Refusal(
            f"`reached` must say of each of at least {FEWEST} networks how far it came, got "
            f"{len(reached)} answers for {len(features)} networks. Train more."
        )
    names = tuple(features[0])
    X = np.array([[row[name] for name in names] for row in features])
    y = np.array([log_odds(min(max(share, 0.0), 1.0), COARSE) for share in reached])
    mean, spread = X.mean(0), np.maximum(X.std(0), 1e-6)
    lines = []
    for share in (RISK / 2, 1 / 2, 1 - RISK / 2):
        line = QuantileRegressor(quantile=share, alpha=PENALTY, solver="highs")
        line.fit((X - mean) / spread, y, sample_weight=weights)
        slopes = line.coef_ / spread
        offset = float(line.intercept_ - slopes @ mean)
        lines.append((*(round(float(s), 6) for s in slopes), round(offset, 6)))
    return ScoreModel(names, *lines, trained=len(y))


@cache
def default_model() -> ScoreModel:
    """The model that is kept here: `benchmarks/ranking.py` made it."""
    return ScoreModel.read(KEPT)
