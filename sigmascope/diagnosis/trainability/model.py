"""The probability that plain training will fit, from a probe at initialisation."""

import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any, TypeVar, final

import numpy as np
import torch
from jaxtyping import Bool, Float64
from torch import Tensor, nn

from sigmascope.core import quantities as q
from sigmascope.core.guard import Budget, Mark, Refusal, door, write_text
from sigmascope.core.records import Estimate, Profile, Reading, Skipped
from sigmascope.diagnosis.trainability.copies import Optimizer
from sigmascope.diagnosis.trainability.curves import EarlyTraining
from sigmascope.diagnosis.trainability.short_runs import MOST, probe
from sigmascope.models.layers import in_words
from sigmascope.models.samples import Batch, Loss, chosen, sample_count
from sigmascope.models.state import as_found

# ------------------------------------------------------------------------------
# Fitted models as JSON files that a person can read.


T = TypeVar("T", bound="Kept")


class Kept:
    """A frozen dataclass of numbers, words and nested tuples of them; the first two are tuples."""

    __slots__ = ()

    def save(self, file: Path) -> None:
        """Write it as JSON, a line for each attribute."""
        state = asdict(self)  # type: ignore[call-overload] (of dataclasses, as the class says)
        lines = [f" {json.dumps(k)}: {json.dumps(v)}" for k, v in state.items()]
        # a file that a model of this kind may write again is known by its first two lines
        first, second = [*state][:2]
        mark = Mark(rf'\{{\n "{first}": \[.*\n "{second}": \['.encode())
        write_text(file, "{\n" + ",\n".join(lines) + "\n}\n", mark=mark)

    @classmethod
    def read(cls: type[T], file: Path) -> T:
        """Read what `save` wrote."""
        return cls(**_tuples(json.loads(file.read_text(encoding="utf-8"))))


def _tuples(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _tuples(part) for key, part in value.items()}
    return tuple(_tuples(part) for part in value) if isinstance(value, list) else value


KEPT = Path(__file__).with_name("trainability.json")
DRAWS = 200  # of the training set, with replacement
RISK = 0.1
EVEN = 0.5  # probability of fitting
MODEL, FITTING = "(model)", q.PROBABILITY_OF_FITTING
FLOOR = 0.005  # from 0 and 1: what a few hundred networks can tell


# ------------------------------------------------------------------------------
# The probability, fitted and foretold.


@final
@dataclass(frozen=True, slots=True)
class TrainabilityModel(Kept):
    """A logistic model of whether a network will fit, small enough to read.

    Attributes:
        names: Of the features of a `Probe`.
        slopes: Of the log odds, by feature.
        offset: Log odds where all features are zero.
        draws: Slopes and offset of models fitted to resampled training sets.
        trained: How many networks it was fitted to.
        fits: What counted as fitting, in words.
    """

    names: tuple[str, ...]
    slopes: tuple[float, ...]
    offset: float
    draws: tuple[tuple[float, ...], ...]
    trained: int
    fits: str

    def probability(self, features: Mapping[str, float]) -> Estimate:
        """Of fitting; the interval is the middle nine tenths over resampled training sets."""
        x = [features[name] for name in self.names]
        value = _logistic(self.slopes, self.offset, x)
        others = [_logistic(d[:-1], d[-1], x) for d in self.draws]
        low, high = (float(np.quantile(others, share)) for share in (RISK / 2, 1 - RISK / 2))
        how = f"logistic model of first steps, fitted to {self.trained} networks"
        return Estimate(value, min(low, value), max(high, value), how, RISK)


def fit_trainability(
    features: Sequence[Mapping[str, float]],
    fits: Sequence[bool],
    *,
    says: str,
    generator: torch.Generator | None = None,
) -> TrainabilityModel:
    """Fit the model to networks whose training was run.

    Args:
        features: Of their probes.
        fits: Whether training fitted.
        says: What counted as fitting, in words.
        generator: Resamples the set; one with seed 0 if not given.

    Raises:
        Refusal: If the two differ in number, or all or none fit.
    """
    y = np.array(fits, dtype=bool)
    if len(features) != len(y) or not len(y) or y.all() or not y.any():
        raise Refusal(
            f"`fits` must say of each network whether it fits, with some of either kind, got "
            f"{len(y)} answers for {len(features)} networks. Train more varied ones."
        )
    names = tuple(features[0])
    X = np.array([[row[name] for name in names] for row in features])
    generator = generator or torch.Generator().manual_seed(0)
    whole, draws = _fitted(X, y), []
    while len(draws) < DRAWS:
        rows = torch.randint(len(y), (len(y),), generator=generator).numpy()
        if 0 < y[rows].sum() < len(y):
            draws.append(_fitted(X[rows], y[rows]))
    return TrainabilityModel(
        names=names,
        slopes=whole[:-1],
        offset=whole[-1],
        draws=tuple(draws),
        trained=len(y),
        fits=says,
    )


def trainability(
    model: nn.Module,
    batch: Batch,
    *,
    targets: Tensor,
    loss: Loss,
    optimizer: Optimizer = "adam",
    by: TrainabilityModel | None = None,
    batch_dim: int = 0,
    generator: torch.Generator | None = None,
    budget: Budget | float | None = Budget.USUAL,
    enough: Callable[[float], bool] | None = None,
) -> Estimate:
    """The probability that plain training will fit the data.

    Copies take small steps at four learning rates. What they show, how much the outputs tell of the
    targets, how far the loss or the right answers have come and whether that is half of the way,
    goes into a logistic model that was fitted to networks of other designs
    (`docs/trainability.md`).

    Args:
        model: At its initial weights; left as it is.
        batch: Samples of the data; 256 of them are used.
        targets: Theirs: classes, or values.
        loss: What training minimises.
        optimizer: Heavy-ball SGD or Adam, whose learning rate will be tuned.
        by: Another model, from `fit_trainability`.
        batch_dim: Where the batch has its samples.
        generator: Chooses samples where there are more.
        budget: Seconds that the steps may take, kept to within one; None for as long as it takes.
        enough: Of a probability, whether any from there on would do: where that of 42 passes does,
            no more are made, which could only raise it, and the upper end is open.

    Returns:
        From 0 to 1. "To fit" is to reach half: a training accuracy of 50 %, or 50 % of the variance
        of the targets, in 1200 steps at the best of four rates.

    Raises:
        OverBudget: As soon as it is known that the steps will not all be made in time: the model
            that foretells was fitted to whole probes, and says nothing of a part of one.
        Refusal: If the model or the loss cannot be computed, nothing is trained, there is no room
            for the copies, or the targets are not finite or do not suit the outputs.

    Cost: 42 forward and backward passes of the batch, most often as 336 steps of its eighths, or 74
    where these decide nothing; at most five times the bytes of the parameters beside the model and
    what a step computes, and for models of more than 1 MiB up to nine times in temporary files.
    """
    batch, targets = for_probing(batch, targets, batch_dim=batch_dim, generator=generator)
    told, ended = by or default_model(), False

    def decides(seen: EarlyTraining) -> bool:
        nonlocal ended
        ended = enough is not None and enough(told.probability(seen.features()).value)
        return ended

    how: Any = {"optimizer": optimizer, "batch_dim": batch_dim, "budget": budget}
    with as_found(loss):
        found = probe(model, batch, targets=targets, loss=loss, **how, enough=decides)
    chance = told.probability(found.features())
    if not ended:
        return chance
    return replace(chance, high=1 - FLOOR, how=f"{chance.how}; more steps could only raise it")


def for_probing(
    batch: Batch, targets: Tensor, *, batch_dim: int = 0, generator: torch.Generator | None = None
) -> tuple[Batch, Tensor]:
    """As many samples with their targets as a probe takes.

    Args:
        batch: Any number of samples.
        targets: Theirs.
        batch_dim: Where the batch has its samples.
        generator: Chooses where there are more than 256; one with seed 0 if not given.

    Raises:
        Refusal: If there are more, and the targets are not one for each.
    """
    count = sample_count(batch, batch_dim=batch_dim)
    if count <= MOST:
        return batch, targets
    if not isinstance(targets, Tensor) or targets.shape[:1] != (count,):
        raise Refusal(
            f"`targets` must have one row for each of the {count} samples, got "
            f"{tuple(targets.shape) if isinstance(targets, Tensor) else type(targets).__name__}"
            f". Pass those of the batch, or up to {MOST} samples."
        )
    rows = torch.randperm(count, generator=generator or torch.Generator().manual_seed(0))[:MOST]
    return chosen(batch, rows, batch_dim=batch_dim), targets[rows.to(targets.device)]


def foretold(
    profile: Profile,
    model: nn.Module,
    batch: Batch,
    *,
    targets: Any = None,
    loss: Loss | None = None,
    optimizer: Optimizer = "adam",
    batch_dim: int = 0,
    budget: Budget | float | None = Budget.USUAL,
    enough: Callable[[float], bool] | None = None,
) -> Profile:
    """A profile with the probability of fitting as one more reading, `"probability of fitting"`.

    Where there are no targets of the kind that a probe takes, or nothing is trained, that is said
    under what was skipped.

    Args:
        profile: Of this model.
        model: Left as it is.
        batch: What was measured.
        targets: Its targets.
        loss: What training minimises.
        optimizer: As for `trainability`.
        batch_dim: Where the batch has its samples.
        budget: As for `trainability`; past it the probability is left out, which is said too.
        enough: As for `trainability`.

    Cost: as `trainability`.
    """
    try:
        if loss is None or not isinstance(targets, Tensor):
            raise Refusal("no targets with a loss were given")
        how: Any = {"optimizer": optimizer, "batch_dim": batch_dim, "budget": budget}
        estimate = trainability(model, batch, targets=targets, loss=loss, **how, enough=enough)
    except Exception as error:  # noqa: BLE001 (a training step may fail in every way)
        return not_foretold(profile, in_words(error))
    reading = Reading(MODEL, FITTING, estimate, "setup")
    return replace(profile, readings=(*profile.readings, reading))


def not_foretold(profile: Profile, why: str) -> Profile:
    """A profile that says why the probability of fitting is left out."""
    return replace(profile, skipped=(*profile.skipped, Skipped(MODEL, FITTING, why)))


@door
def probability(profile: Profile) -> Reading | None:
    """The probability of fitting, if the profile holds it."""
    return next(iter(profile.series(FITTING)), None)


def likely_to_fit(profile: Profile) -> bool:
    """Whether the profile holds a probability of fitting of one half or more: copies learned."""
    chance = probability(profile)
    return chance is not None and chance.estimate.value >= EVEN


@cache
def default_model() -> TrainabilityModel:
    """The model that is kept here: `benchmarks/trainability.py` made it."""
    return TrainabilityModel.read(KEPT)


def _fitted(X: Float64[np.ndarray, "n k"], y: Bool[np.ndarray, " n"]) -> tuple[float, ...]:
    """Slopes and offset, for the features as they are."""
    from sklearn.linear_model import LogisticRegression

    mean, spread = X.mean(0), np.maximum(X.std(0), 1e-6)
    found = LogisticRegression(C=1.0, max_iter=1000).fit((X - mean) / spread, y)
    slopes = found.coef_[0] / spread
    return (*slopes.tolist(), float(found.intercept_[0] - slopes @ mean))


def _logistic(slopes: Sequence[float], offset: float, x: Sequence[float]) -> float:
    z = offset + math.fsum(a * b for a, b in zip(slopes, x, strict=True))
    return min(max(1 / (1 + math.exp(-max(min(z, 500.0), -500.0))), FLOOR), 1 - FLOOR)
