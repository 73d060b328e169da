"""The loss, followed at every step where that costs nothing: the first that shows what went wrong.

Losses of batches scatter, the more the better the model is, so that what counts is their mean over
some steps, against a slow mean, its scatter, and how far the loss has come since the start.
"""

import math
from dataclasses import dataclass

FAST, SLOW = 0.35, 0.03  # weights of the last loss
YOUNG = 15  # losses in which the slow mean is the plain one
SCATTER, PART, WAY = (
    5.0,
    0.3,
    0.08,
)  # times the scatter, of the slow mean, of the way from the start
CLIPPED = 2.2  # limits above the slow mean that one loss may count as: a single one is no rise
RISES = 0.35  # of the limit
HINT = 0.25  # of the limit: a look is worth its price
EARLY, NEAR = 40, 0.9  # losses, and of the first ones: nothing was learned
TOP = 0.5  # of the limit: one loss above it is heard at once


@dataclass(slots=True)
class LossTrack:
    """What losses have been.

    Attributes:
        count: Of losses.
        fast: Mean of the last few.
        slow: Mean over some tens of steps; losses beyond the limit are not taken in.
        scatter: Usual distance from the slow mean.
        start: Mean of the first losses.
        finite: Whether the last was a number.
    """

    count: int = 0
    fast: float = 0.0
    slow: float = 0.0
    scatter: float = 0.0
    start: float = 0.0
    finite: bool = True
    beyond: int = 0

    def add(self, loss: float, steps: int = 1) -> None:
        """Take a loss that stands for so many steps."""
        self.finite = math.isfinite(loss)
        if not self.finite:
            return
        self.count += 1
        young = self.count <= YOUNG
        weight = 1 / self.count
        given, loss = loss, loss if young else min(loss, self.slow + CLIPPED * self.limit)
        self.fast += max(weight, FAST) * (loss - self.fast)
        if young:
            self.start += weight * (loss - self.start)
        gap = loss - self.slow if self.count > 1 else 0.0
        if not young and self.excess > 1:
            self.beyond += 1
            if self.beyond > 2 / SLOW:  # it is what losses are now
                self.slow = self.fast = given
            return
        self.beyond = 0
        for_all = steps if gap < TOP * self.limit else 1  # of what is strange others are not
        slowly = max(weight, min(SLOW * for_all, 0.5))
        self.slow += slowly * gap if self.count > 1 else loss
        self.scatter += slowly * (abs(gap) - self.scatter)

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
