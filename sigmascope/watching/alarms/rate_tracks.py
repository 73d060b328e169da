"""The learning rate at every step: schedules rise at first, and seldom leave a plateau upwards."""

import math
from dataclasses import dataclass

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
        if usual and rate < NOTHING * self.rate:
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
