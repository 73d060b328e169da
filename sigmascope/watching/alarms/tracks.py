"""What is usual of a quantity at a place: a running level and how far readings stray from it.

Of each place some numbers are kept, however long training goes on. Quantities that span orders of
magnitude are followed in their logarithm. The invariant: what strays far is not taken into what is
usual, so that a run that goes wrong does not become its own measure; what stays there for `SETTLED`
readings is the new usual.
"""

import math
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

from sigmascope.quantities import quantity
from sigmascope.watching.alarms.loss_tracks import LossTrack
from sigmascope.watching.alarms.rate_tracks import RateTrack
from sigmascope.watching.columns import Column

WEIGHT = 0.1  # of the last reading in what is usual
YOUNG = 8  # readings in which what is usual is their mean
FAR = 6.0  # times the usual straying: not taken in
SETTLED = 40  # readings in a row that are far and stay together
KEPT = 24  # readings for trends
LEAST_LOG, LEAST_SHARE = 0.1, 0.02  # what any reading strays by
MOVED, STILL = 4.0, 2.0  # usual distances: beyond the first it has moved, until within the second
TINY = 1e-300

Kind = Literal["log", "share"]


@dataclass(slots=True)
class Track:
    """One quantity at one place.

    Attributes:
        kind: How it is followed.
        count: Readings so far.
        level: Their usual value.
        stray: Usual distance from it.
        first: Mean of the first readings.
        last: The last reading, as it is followed; None where it was not a number.
        score: How far the last one strays, in usual distances, with its sign.
        moved: The step at which it left what is usual; None while it has not.
        recent: The last readings with their steps.
    """

    kind: Kind
    count: int = 0
    level: float = 0.0
    stray: float = 0.0
    first: float = 0.0
    last: float | None = None
    score: float = 0.0
    moved: int | None = None
    far: int = 0
    recent: deque[tuple[int, float]] = field(default_factory=lambda: deque(maxlen=KEPT))

    def add(self, step: int, value: float) -> None:
        """Take a reading."""
        if not math.isfinite(value):
            self.last = None
            return
        x = math.log(max(value, TINY)) if self.kind == "log" else value
        self.last = x
        self.recent.append((step, x))
        gap = x - self.level if self.count else 0.0
        self.score = gap / self.usual if self.count >= YOUNG else 0.0
        if abs(self.score) < STILL:
            self.moved = None
        elif self.moved is None and abs(self.score) > MOVED:
            self.moved = step
        self._learn(x, gap)

    @property
    def usual(self) -> float:
        """How far a reading strays as a rule."""
        return max(1.25 * self.stray, LEAST_LOG if self.kind == "log" else LEAST_SHARE)

    @property
    def value(self) -> float:
        """The last reading; nan where it was not a number."""
        return math.nan if self.last is None else self._plain(self.last)

    @property
    def usually(self) -> float:
        """What is usual, in the unit of the quantity."""
        return self._plain(self.level)

    @property
    def at_first(self) -> float:
        """What it was at first, in the unit of the quantity."""
        return self._plain(self.first)

    def growth(self, least: int) -> tuple[float, float] | None:
        """Growth per step over the last readings, and from their first to their last.

        Returns:
            Both in logarithms; None where there are fewer readings than `least`, or not each of
            them is above the one before.
        """
        recent = self.recent
        if len(recent) < least or any(recent[-i][1] <= recent[-i - 1][1] for i in range(1, least)):
            return None
        (a, x), (b, y) = recent[-least], recent[-1]
        return (y - x) / max(b - a, 1), y - x

    def spread(self, count: int) -> float:
        """Between the least and the largest of the last readings, as they are followed."""
        tail = [x for _, x in [*self.recent][-count:]]
        return max(tail) - min(tail) if tail else 0.0

    def _plain(self, x: float) -> float:
        return math.exp(min(x, 709.0)) if self.kind == "log" else x

    def _learn(self, x: float, gap: float) -> None:
        self.count += 1
        young = self.count <= YOUNG
        if young:
            self.first += (x - self.first) / self.count
        if not young and abs(gap) > FAR * self.usual:
            self.far += 1
            if self.far < SETTLED:
                return
            self.level, self.stray, gap = x, abs(gap) / FAR, 0.0
        self.far = 0
        weight = max(WEIGHT, 1 / self.count)
        self.level += weight * gap if self.count > 1 else x
        self.stray += weight * (abs(gap) - self.stray)


class Tracks:
    """The tracks of everything that is read.

    Attributes:
        loss: That of the loss.
        rate: That of the learning rate.
    """

    def __init__(self) -> None:
        self.loss = LossTrack()
        self.rate = RateTrack()
        self._tracks: dict[tuple[str, str], dict[str, Track]] = {}

    def add(self, step: int, columns: Sequence[Column]) -> None:
        """Take what a look has read."""
        for column in columns:
            tracks = self._tracks.setdefault((column.quantity, column.form), {})
            for site, value in zip(column.sites, column.values, strict=True):
                track = tracks.get(site)
                if track is None:
                    track = tracks[site] = Track(_kind(column.quantity))
                track.add(step, value)

    def of(self, name: str, form: str = "") -> Mapping[str, Track]:
        """The tracks of a quantity by site, in the order of the model."""
        return self._tracks.get((name, form), {})

    def forms(self, name: str) -> Iterator[tuple[str, Mapping[str, Track]]]:
        """The same of every form."""
        for (quantity_name, form), tracks in self._tracks.items():
            if quantity_name == name:
                yield form, tracks

    def one(self, name: str, site: str, form: str = "") -> Track | None:
        """One track; None where nothing was read."""
        return self.of(name, form).get(site)


def _kind(name: str) -> Kind:
    row = quantity(name)
    return "log" if row.scale == "log" or row.most > 1 else "share"
