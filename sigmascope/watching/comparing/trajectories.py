"""A run's readings as columns over steps, and two of them on common steps."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from sigmascope.quantities import quantities
from sigmascope.records import Estimate
from sigmascope.store import COLUMNS

ENOUGH = 16  # steps that two runs must share, or else one is interpolated


class Key(NamedTuple):
    """What is read over steps."""

    site: str
    view: str
    form: str
    quantity: str


@dataclass(frozen=True, slots=True, eq=False)
class Trajectory:
    """One quantity at one place over the steps at which it was read.

    Attributes:
        steps: Ascending, each once.
        numbers: Value, low and high of each reading [3, n].
        hows: Route and risk of each.
    """

    steps: np.ndarray
    numbers: np.ndarray
    hows: tuple[tuple[str, float], ...]

    def estimate(self, place: int) -> Estimate:
        """The reading at one of the steps, counted from 0."""
        value, low, high = map(float, self.numbers[:, place])
        return Estimate(value, low, high, *self.hows[place])

    def at(self, places: np.ndarray) -> "Trajectory":
        """The same at some of its steps."""
        hows = tuple(self.hows[i] for i in places)
        return Trajectory(self.steps[places], self.numbers[:, places], hows)

    def between(self, steps: np.ndarray) -> "Trajectory":
        """Interpolated linearly in the steps, which lie within its own."""
        numbers = np.array([np.interp(steps, self.steps, row) for row in self.numbers])
        return Trajectory(steps, numbers, (("interpolated", 1.0),) * len(steps))


def trajectories(cells: Iterable[tuple[Any, ...]]) -> Mapping[Key, Trajectory]:
    """Readings of a run by what is read; of one that was filed again the last counts.

    Args:
        cells: Rows of the table of readings, as `Run.cells` gives them.
    """
    place = {name: 2 + i for i, name in enumerate(COLUMNS["readings"])}
    key = [place[name] for name in Key._fields]
    rest = [place[name] for name in ("value", "low", "high", "how", "risk")]
    found: dict[Key, dict[int, tuple[Any, ...]]] = {}
    for row in cells:
        found.setdefault(Key(*(row[i] for i in key)), {})[row[0]] = tuple(row[i] for i in rest)
    return {key: _ordered(rows) for key, rows in found.items()}


def _ordered(rows: Mapping[int, tuple[Any, ...]]) -> Trajectory:
    steps = sorted(rows)
    numbers = np.array([rows[s][:3] for s in steps], float).T
    return Trajectory(np.array(steps, float), numbers, tuple(rows[s][3:] for s in steps))


def on_common_steps(a: Trajectory, b: Trajectory) -> tuple[Trajectory, Trajectory, bool]:
    """Two trajectories at the steps that they share, or the second at those of the first.

    Returns:
        Both, and whether the second was interpolated: where fewer than `ENOUGH` steps are shared
        and neither has all of its steps among them.
    """
    shared, here, there = np.intersect1d(a.steps, b.steps, return_indices=True)
    if len(shared) >= min(ENOUGH, len(a.steps), len(b.steps)):
        return a.at(here), b.at(there), False
    inside = np.flatnonzero((a.steps >= b.steps[0]) & (a.steps <= b.steps[-1]))
    return a.at(inside), b.between(a.steps[inside]), True


def scaled(key: Key, *pair: Trajectory) -> tuple[np.ndarray, ...]:
    """The numbers of trajectories on the scale on which their quantity is drawn.

    A quantity of many decades goes by its natural logarithm, so that differences are relative;
    ends of intervals below zero go to minus infinity, where nothing is known.
    """
    known = quantities().get(key.quantity)
    log = known is not None and known.scale == "log"
    if not log or any((t.numbers[0] <= 0).any() for t in pair):
        return tuple(t.numbers for t in pair)
    with np.errstate(divide="ignore"):
        return tuple(np.log(np.maximum(t.numbers, 0)) for t in pair)
