"""What is usual of a quantity at a place: a running level and how far readings stray from it.

Of each place some numbers are kept, however long training goes on. Quantities that span orders of
magnitude are followed in their logarithm. The invariant: what strays far is not taken into what is
usual, so that a run that goes wrong does not become its own measure; what stays there for `SETTLED`
readings is the new usual.
"""

import math
from collections import deque
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from statistics import median
from types import MappingProxyType
from typing import Literal

from torch import nn
from torch.optim import Optimizer

from sigmascope.core.quantities import quantity
from sigmascope.watching.sinks import Column

# ------------------------------------------------------------------------------
# The loss, followed at every step where that costs nothing: the first that shows what went wrong.
#
# Losses of batches scatter, the more the better the model is, so that what counts is their mean
# over some steps, against a slow mean, its scatter, and how far the loss has come since the start.
#
# Ruin that is slow lifts the slow mean with it. Against that stand the losses of the best time so
# far: where three in four of the last are above nine in ten of those, it is not a burst, of which
# healthy runs have many, but all batches that have become worse.


FAST, SLOW, DOWN = 0.35, 0.03, 0.06  # weights of the last loss; learning is followed sooner
YOUNG_LOSSES = 15  # losses in which the slow mean is the plain one
SCATTER, PART, WAY = 5.5, 0.3, 0.08  # times the scatter, of the slow mean, of the way so far
CLIPPED = 2.2  # limits above the slow mean that one loss may count as: a single one is no rise
RISES = 0.35  # of the limit
HINT = 0.25  # of the limit: a look is worth its price
EARLY, NEAR = 40, 0.9  # losses, and of the first ones: nothing was learned
TOP = 0.5  # of the limit: one loss above it is heard at once
WINDOW, FEWEST, EACH = 48, 16, 8  # steps that are judged together, losses at least, steps between
LOWER, UPPER = 0.25, 0.9  # quantiles: of the last losses, and of the best
SAFER = 10  # losses, fewer than all, for each of which one less may be below
UNDONE, REGAINED = 0.03, 0.5  # of the way from the start; and of that, where it is over
TWICE = 2  # times in a row
FITTED = 0.1  # of the first loss
CALM = 16  # losses of which the median is usual


@dataclass(slots=True)
class LossTrack:
    """What losses have been.

    Attributes:
        count: Of losses.
        fast: Mean of the last few.
        slow: Mean over some tens of steps; losses beyond the limit are not taken in.
        scatter: Usual distance of a loss from the mean of the few before: no fall of the loss.
        start: Mean of the first losses.
        finite: Whether the last was a number.
        beyond: Losses in a row that were beyond the limit.
        risen: Losses in a row that were not calm.
        best: Median of the best time so far, and the upper end of its losses; None before any.
        since: Steps since then.
        drifted: How often in a row all losses had become worse.
        undone: Of the way from the start to the best, how much is lost; 0 while nothing is known.
    """

    count: int = 0
    fast: float = 0.0
    slow: float = 0.0
    scatter: float = 0.0
    start: float = 0.0
    finite: bool = True
    beyond: int = 0
    risen: int = 0
    best: tuple[float, float] | None = None
    since: int = 0
    drifted: int = 0
    undone: float = 0.0
    _due: int = EACH
    _last: deque[float] = field(default_factory=lambda: deque(maxlen=WINDOW))
    _calm: deque[float] = field(default_factory=lambda: deque(maxlen=CALM))

    def add(self, loss: float, steps: int = 1) -> None:
        """Take a loss that stands for so many steps."""
        self.finite = math.isfinite(loss)
        if not self.finite:
            return
        self.count += 1
        self._last.append(loss)
        self.since += steps
        self._due -= steps
        wanted = max(WINDOW // steps, FEWEST)
        if self._due <= 0 and len(self._last) >= wanted:  # the last losses with the best time's
            self._due = EACH
            last = sorted(islice(self._last, len(self._last) - wanted, None))
            fewer = (WINDOW - wanted) // SAFER
            low = last[max(round(LOWER * (wanted - 1)) - fewer, 0)]
            middle, high = (last[round(q * (wanted - 1))] for q in (0.5, UPPER))
            if self.best is None or middle < self.best[0]:
                self.best, self.since, self.drifted, self.undone = (middle, high), 0, 0, 0.0
            else:
                best, top = self.best
                way = self.start - best
                self.undone = max(middle - best, 0.0) / way if way > 0 else 0.0
                if self.undone > UNDONE and low > top:
                    self.drifted += 1
                elif self.undone < REGAINED * UNDONE or low <= best:
                    self.drifted = 0
        young = self.count <= YOUNG_LOSSES
        weight = 1 / self.count
        given, loss = loss, loss if young else min(loss, self.slow + CLIPPED * self.limit)
        stray = abs(loss - self.fast) if self.count > 1 else 0.0
        self.fast += max(weight, FAST) * (loss - self.fast)
        if young:
            self.start += weight * (loss - self.start)
        gap = loss - self.slow if self.count > 1 else 0.0
        if young or gap < TOP * self.limit:
            self.risen = 0
            self._calm.append(given)
        else:
            self.risen += steps
        if not young and self.excess > 1:
            self.beyond += 1
            if self.beyond > 2 / SLOW:  # it is what losses are now
                self.slow = self.fast = given
            return
        self.beyond = 0
        for_all = steps if gap < TOP * self.limit else 1  # of what is strange others are not
        slowly = max(weight, min(SLOW * for_all, 0.5))
        self.slow += (max(slowly, DOWN) if gap < 0 else slowly) * gap if self.count > 1 else loss
        self.scatter += slowly * (stray - self.scatter)

    @property
    def drifts(self) -> bool:
        """Whether all losses have become worse than at the best time, and stay so."""
        return self.drifted >= TWICE

    @property
    def usually(self) -> float:
        """The median of the last calm losses."""
        return median(self._calm) if self._calm else self.slow

    @property
    def lately(self) -> float:
        """The median of the last losses, calm or not."""
        return median(self._last) if self._last else self.fast

    @property
    def limit(self) -> float:
        """What the fast mean may be above the slow one."""
        way = abs(self.start - self.slow)
        return max(SCATTER * self.scatter, PART * abs(self.slow), WAY * way, 1e-12)

    @property
    def excess(self) -> float:
        """The fast mean over the slow one, in limits; above 1 the loss has left what is usual."""
        return (self.fast - self.slow) / self.limit if self.count > YOUNG_LOSSES else 0.0

    @property
    def rises(self) -> bool:
        """Whether it does, or nothing is known of it: what else changes may then be a fault."""
        return self.count == 0 or not self.finite or self.excess > RISES

    @property
    def stuck(self) -> bool:
        """Whether it is about what it was at first, and does not fall."""
        high = self.fast >= NEAR * self.start if self.start > 0 else self.fast >= self.start
        return self.count > EARLY and high and self.fast > self.slow - 0.02 * abs(self.slow)

    @property
    def fitted(self) -> bool:
        """Whether so little is left of it that updates may stop; below zero nothing tells that."""
        return self.count > 0 and 0 <= self.fast < FITTED * self.start

    @property
    def hints(self) -> bool:
        """Whether a look is worth its price."""
        return not self.finite or self.excess > HINT

    @property
    def top(self) -> float:
        """A loss at or above which the next one is to be heard at once; minus infinity for any."""
        known = self.count > YOUNG_LOSSES and not self.hints
        return self.slow + TOP * self.limit if known else -math.inf


# ------------------------------------------------------------------------------
# The learning rate at every step: schedules rise at first, and seldom leave a plateau upwards.


PLATEAU = 30  # steps without a new maximum
RISE = 1.01  # of the maximum, that is a new one
HIGH, NOTHING = 0.05, 1e-3  # of the maximum, and of the rate before
SOON = 0.01, 1.5  # of the last rate and of the maximum: beyond, it is heard at once
AGAIN = 2.0  # times the lowest since the maximum: a cycle of the schedule begins again
JUMP, BACK = 3.0, 1.5  # times the plateau's maximum: left for good, and as good as back


@dataclass(slots=True)
class RateTrack:
    """What the learning rate has been.

    Attributes:
        highest: So far.
        base: The highest of the plateau that was left upwards; None if none was.
        rate: The last.
        since: Steps since `highest` rose.
        lowest: Since then.
        dropped: Whether it fell from a usual height to next to nothing within one step, as no
            schedule does before its end.
    """

    highest: float = 0.0
    base: float | None = None
    rate: float = 0.0
    since: int = 0
    lowest: float = math.inf
    dropped: bool = False

    def add(self, rate: float) -> None:
        """Take the rate of a step."""
        usual = self.rate > HIGH * self.highest
        if usual and rate <= NOTHING * (1 + 1e-9) * self.rate:  # rounded, as what divides by it
            self.dropped = True
        elif rate > HIGH * self.highest:
            self.dropped = False
        self.rate = rate
        self.since += 1
        self.lowest = min(self.lowest, rate)
        if rate > RISE * self.highest:
            if self.since > PLATEAU and self.highest > 0 and self.base is None:
                self.base = self.highest
            self.highest, self.since, self.lowest = rate, 0, rate
        if self.base is not None and rate <= BACK * self.base and self.since > PLATEAU:
            self.base = None

    @property
    def jumped(self) -> bool:
        """Whether it is far above a plateau that it has left."""
        return self.base is not None and self.rate > JUMP * self.base

    @property
    def again(self) -> bool:
        """Whether it was low and has risen, as where a cycle begins anew: losses rise with it."""
        return self.rate > AGAIN * self.lowest

    @property
    def usual(self) -> tuple[float, float]:
        """Between which rates nothing is new that cannot wait."""
        if not self.highest:
            return math.inf, -math.inf
        return SOON[0] * self.rate, SOON[1] * self.highest


WEIGHT = 0.1  # of the last reading in what is usual
YOUNG = 8  # readings in which what is usual is their mean
FAR = 6.0  # times the usual straying: not taken in
SETTLED = 40  # readings in a row that are far and stay together
KEPT = 24  # readings for trends
LEAST_LOG, LEAST_SHARE = 0.1, 0.02  # what any reading strays by
MOVED, STILL = 4.0, 2.0  # usual distances: beyond the first it has moved, until within the second
TINY = 1e-300
LOG_ZERO = math.log(TINY)  # what stands for the logarithm of zero

Kind = Literal["log", "share"]


@dataclass(slots=True)
class Track:
    """One quantity at one place.

    Attributes:
        kind: How it is followed.
        count: Readings so far, without zeros among others where logarithms are followed.
        level: Their usual value.
        stray: Usual distance from it.
        first: Mean of the first readings.
        last: The last reading, as it is followed; None where it was not a number.
        bad: The step of the last reading that was not a number; None while each was one.
        score: How far the last one strays, in usual distances, with its sign.
        moved: The step at which it left what is usual; None while it has not.
        zeros: Readings in a row, up to the last, that are zero though others were not.
        zeros_before: Readings before these that are zero likewise.
        recent: The last readings with their steps.
    """

    kind: Kind
    count: int = 0
    level: float = 0.0
    stray: float = 0.0
    first: float = 0.0
    last: float | None = None
    bad: int | None = None
    score: float = 0.0
    moved: int | None = None
    far: int = 0
    zeros: int = 0
    zeros_before: int = 0
    recent: deque[tuple[int, float]] = field(default_factory=lambda: deque(maxlen=KEPT))

    def add(self, step: int, value: float) -> None:
        """Take a reading."""
        if not math.isfinite(value):
            self.last, self.bad = None, step
            return
        x = math.log(max(value, TINY)) if self.kind == "log" else value
        self.last = x
        self.recent.append((step, x))
        gap = x - self.level if self.count else 0.0
        # the logarithm of zero is made up, and in a mean it would drown those of all others
        if self.kind == "log" and self.count and self.is_zero != (self.level == LOG_ZERO):
            if self.is_zero:  # it counts for nothing until it is usual itself
                self.zeros += 1
                self.far += 1
                if self.count >= YOUNG:
                    self.score = gap / self.usual
                    self.moved = step if self.moved is None else self.moved
                if self.far >= SETTLED:
                    self.level, self.stray, self.score, self.moved = LOG_ZERO, 0.0, 0.0, None
                return
            if self.first == LOG_ZERO:  # it begins with this one
                self.count = 0
            else:
                self.level, self.stray, self.far = x, 0.0, 0
            gap = 0.0
        self.zeros, self.zeros_before = 0, self.zeros_before + self.zeros
        self.score = gap / self.usual if self.count >= YOUNG else 0.0
        if abs(self.score) < STILL:
            self.moved = None
        elif self.moved is None and abs(self.score) > MOVED:
            self.moved = step
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

    @property
    def is_zero(self) -> bool:
        """Whether the last reading is zero, where logarithms are followed."""
        return self.kind == "log" and self.last == LOG_ZERO

    def lately(self, count: int) -> Sequence[float]:
        """The last readings, in the unit of the quantity; none where there are fewer."""
        tail = [self._plain(x) for _, x in self.recent][-count:]
        return tail if len(tail) == count and self.last is not None else ()

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
            Both in logarithms; None where there are fewer readings than `least`, the first of them
            is zero, or not each is above the one before.
        """
        recent = self.recent
        if len(recent) < least or recent[-least][1] <= LOG_ZERO:
            return None
        if any(recent[-i][1] <= recent[-i - 1][1] for i in range(1, least)):
            return None
        (a, x), (b, y) = recent[-least], recent[-1]
        return (y - x) / max(b - a, 1), y - x

    def spread(self, count: int) -> float:
        """Between the least and the largest of the last readings, as they are followed."""
        tail = [x for _, x in [*self.recent][-count:]]
        return max(tail) - min(tail) if tail else 0.0

    def _plain(self, x: float) -> float:
        return math.exp(min(x, 709.0)) if self.kind == "log" else x


# ------------------------------------------------------------------------------
# What each trained matrix is in its model, and whether its optimizer is meant to be Muon: readings
# do not tell that, and rules that speak of the steps of one matrix need it.


Role = Literal["embedding", "readout", "vector", ""]


@dataclass(frozen=True, slots=True)
class TrainedMatrix:
    """A weight of two sides or more, unfolded to `[rows, cols]`, as one optimizer trains it.

    Attributes:
        rows: Its outputs.
        cols: Its inputs, times the places of a kernel.
        role: An embedding, the readout, one row or column alone, or any other.
        group: A number for each group of each optimizer.
        meant: Whether its optimizer or its group calls itself Muon.
        steps: Of Newton and Schulz, if its group says how many.
    """

    rows: int
    cols: int
    role: Role
    group: int
    meant: bool
    steps: int | None = None

    @property
    def side(self) -> int:
        """The smaller one, which no stable rank is above."""
        return min(self.rows, self.cols)

    @property
    def of_noise(self) -> float:
        """The stable rank of independent entries of this shape (Bai & Yin 1993)."""
        large, small = max(self.rows, self.cols), self.side
        return small * large / (math.sqrt(large) + math.sqrt(small)) ** 2


def trained_matrices(
    model: nn.Module, optimizers: Sequence[Optimizer]
) -> Mapping[str, TrainedMatrix]:
    """Those of a model that optimizers train, by the names of the parameters.

    The readout is the last matrix in the model's order, where none reads as many inputs as it has
    outputs. Of one row or column nothing is said but where Muon of torch trains it: others may
    leave it to Adam by themselves.
    """
    groups = [(o, g) for o in optimizers for g in o.param_groups]
    at = {id(p): i for i, (_, group) in enumerate(groups) for p in group["params"]}
    tables = [m for m in model.modules() if isinstance(m, nn.Embedding | nn.EmbeddingBag)]
    embeddings = {id(m.weight) for m in tables}
    every = [(n, p) for n, p in model.named_parameters() if p.ndim > 1 and p.numel()]
    inner = [p for _, p in every if id(p) not in embeddings]
    inputs = {p.numel() // p.shape[0] for p in inner}
    found: dict[str, TrainedMatrix] = {}
    for name, p in every:
        if id(p) not in at:
            continue
        optimizer, group = groups[at[id(p)]]
        steps = group.get("ns_steps")
        by_name = "muon" in type(optimizer).__name__.lower()
        meant = bool(group.get("use_muon", by_name or isinstance(steps, int)))
        rows, cols = p.shape[0], p.numel() // p.shape[0]
        role: Role = ""
        if min(rows, cols) == 1:
            if not (meant and type(optimizer).__module__.startswith("torch.")):
                continue
            role = "vector"
        elif id(p) in embeddings:
            role = "embedding"
        elif p is inner[-1] and rows not in inputs:
            role = "readout"
        known = steps if isinstance(steps, int) else None
        found[name] = TrainedMatrix(rows, cols, role, at[id(p)], meant, known)
    return found


# ------------------------------------------------------------------------------
# All that rules read.


class Tracks:
    """The tracks of everything that is read.

    Args:
        matrices: What trained weights are in their model, by name.
        vectors: Places whose trained weights are no matrices.

    Attributes:
        loss: That of the loss.
        rate: That of the learning rate.
        matrices: As given.
        vectors: Likewise.
    """

    def __init__(
        self,
        matrices: Mapping[str, TrainedMatrix] = MappingProxyType({}),
        vectors: Collection[str] = (),
    ) -> None:
        self.matrices, self.vectors = matrices, frozenset(vectors)
        self.loss = LossTrack()
        self.rate = RateTrack()
        self._tracks: dict[tuple[str, str], dict[str, Track]] = {}

    def add(self, step: int, columns: Sequence[Column]) -> None:
        """Take what a look has read; a loss is of a step before it."""
        for column in columns:
            at = step if column.step is None else column.step
            tracks = self._tracks.setdefault((column.quantity, column.form), {})
            for site, value in zip(column.sites, column.values, strict=True):
                track = tracks.get(site)
                if track is None:
                    row = quantity(column.quantity)
                    track = tracks[site] = Track(
                        "log" if row.scale == "log" or row.most > 1 else "share"
                    )
                track.add(at, value)

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
