"""Losses of all steps, as means over blocks that are the same in every run.

Looks fall where they are paid for, at other steps in every run. Blocks of steps do not: each octave
has sixteen, so that runs share nearly all of them, and a long run has some hundreds.
"""

import math

from sigmascope import quantities as q
from sigmascope.records import Estimate, Reading
from sigmascope.watching.looks import LOSS, MEANS

BLOCKS = 16  # in every octave of steps; before the first, every step is one


def block(step: int) -> int:
    """The last step of the block of a step."""
    width = 1 << max(step.bit_length() - BLOCKS.bit_length(), 0)
    return -(-step // width) * width


class LossMeans:
    """Takes losses in the order of steps, and gives the means of blocks that are over."""

    def __init__(self) -> None:
        self._end, self._sum, self._count, self._step = 0, 0.0, 0, 0
        self._done: list[tuple[int, Reading]] = []  # few, however long nobody takes them

    def add(self, step: int, loss: float) -> None:
        """Take a loss of a step; one that is not finite is no part of a mean."""
        if step > self._end:
            self._close(block(step))
        self._step = step
        if math.isfinite(loss):
            self._sum += loss
            self._count += 1

    def take(self) -> tuple[tuple[int, Reading], ...]:
        """Blocks that have ended since this was last asked, by their last steps."""
        done = tuple(self._done)
        self._done.clear()
        return done

    def end(self) -> None:
        """No loss follows: the block that was begun ends at the last step."""
        self._end = min(self._end, self._step)
        self._close(0)

    def _close(self, end: int) -> None:
        if self._count:
            mean = Estimate.exactly(self._sum / self._count, how=f"mean of {self._count} losses")
            self._done.append((self._end, Reading(LOSS, q.LOSS, mean, q.WATCH, MEANS)))
        self._end, self._sum, self._count = end, 0.0, 0
