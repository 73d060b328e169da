"""The loss, followed at every step where that costs nothing: the first that shows what went wrong.

Losses of batches scatter, the more the better the model is, so that what counts is their mean over
some steps, against a slow mean, its scatter, and how far the loss has come since the start.

Ruin that is slow lifts the slow mean with it. Against that stand the losses of the best time so
far: where three in four of the last are above nine in ten of those, it is not a burst, of which
healthy runs have many, but all batches that have become worse.
"""

import math
from collections import deque
from dataclasses import dataclass, field
from itertools import islice
from statistics import median

FAST, SLOW, DOWN = 0.35, 0.03, 0.06  # weights of the last loss; learning is followed sooner
YOUNG = 15  # losses in which the slow mean is the plain one
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
        self._compare(loss, steps)
        young = self.count <= YOUNG
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

    def _compare(self, loss: float, steps: int) -> None:
        """The last losses with those of the best time."""
        self._last.append(loss)
        self.since += steps
        self._due -= steps
        wanted = max(WINDOW // steps, FEWEST)
        if self._due > 0 or len(self._last) < wanted:
            return
        self._due = EACH
        last = sorted(islice(self._last, len(self._last) - wanted, None))
        fewer = (WINDOW - wanted) // SAFER
        low = last[max(round(LOWER * (wanted - 1)) - fewer, 0)]
        middle, high = (last[round(q * (wanted - 1))] for q in (0.5, UPPER))
        if self.best is None or middle < self.best[0]:
            self.best, self.since, self.drifted, self.undone = (middle, high), 0, 0, 0.0
            return
        best, top = self.best
        way = self.start - best
        self.undone = max(middle - best, 0.0) / way if way > 0 else 0.0
        if self.undone > UNDONE and low > top:
            self.drifted += 1
        elif self.undone < REGAINED * UNDONE or low <= best:
            self.drifted = 0

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
        return (self.fast - self.slow) / self.limit if self.count > YOUNG else 0.0

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
    def hints(self) -> bool:
        """Whether a look is worth its price."""
        return not self.finite or self.excess > HINT

    @property
    def top(self) -> float:
        """A loss at or above which the next one is to be heard at once; minus infinity for any."""
        known = self.count > YOUNG and not self.hints
        return self.slow + TOP * self.limit if known else -math.inf
