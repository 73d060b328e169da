"""How long training of copies may take, in the user's words, and how it is kept to.

A step of torch cannot be interrupted, so that a budget holds within about one step.
"""

import math
import re
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import ClassVar

from sigmascope.gate.refusals import Refusal, printable

SECONDS = {"": 1, "s": 1, "sec": 1, "min": 60, "h": 3600}
LONGEST = 1e9  # seconds


class OverBudget(Refusal):
    """What was asked for takes longer than is allowed."""


def seconds_of(text: str) -> float:
    """Seconds from words: `60s`, `2min`, `1.5 h`, `90`.

    Raises:
        Refusal: If they are no time above zero.
    """
    match = re.fullmatch(r"\s*([0-9]{1,12}(?:\.[0-9]{1,12})?)\s*([a-z]*)\s*", text.lower())
    number, unit = match.groups() if match else ("0", "")
    seconds = float(number) * SECONDS.get(unit, 0)
    if not 0 < seconds <= LONGEST:
        raise Refusal(
            f"A budget of time must be above zero and read like `60s`, `2min` or `1h`, got "
            f"`{printable(text)}`. Write a number and its unit."
        )
    return seconds


def time_words(seconds: float) -> str:
    """Seconds as words, as `seconds_of` reads them: `0.4s`, `48s`, `12min`, `3.5h`."""
    if seconds < 90:
        return f"{seconds:.2g}s" if seconds < 10 else f"{seconds:.0f}s"
    return f"{seconds / 60:.3g}min" if seconds < 5400 else f"{seconds / 3600:.3g}h"


@dataclass(slots=True)
class Budget:
    """Seconds that training of copies may take; several in turn share them.

    Attributes:
        seconds: So many; infinite for as long as it takes.
        tell: Is told what something will cost before most of it is done.
        clock: In seconds.
    """

    USUAL: ClassVar[float] = 120.0  # seconds, where the user says nothing

    seconds: float = USUAL
    tell: Callable[[str], None] | None = None
    clock: Callable[[], float] = time.monotonic
    _used: float = 0.0
    _since: float | None = field(default=None)

    def __post_init__(self) -> None:
        known = isinstance(self.seconds, int | float) and not isinstance(self.seconds, bool)
        if not known or not self.seconds > 0:  # a nan is not either
            raise Refusal(
                f"`budget` must be seconds above 0, got {self.seconds!r}. Pass None for as long as "
                "it takes."
            )

    @classmethod
    def of(cls, budget: "Budget | float | None") -> "Budget":
        """A budget of so many seconds; one without end for None."""
        if isinstance(budget, Budget):
            return budget
        return cls(math.inf if budget is None else budget)

    @property
    def used(self) -> float:
        """Seconds that are used."""
        return self._used + (0.0 if self._since is None else self.clock() - self._since)

    @property
    def left(self) -> float:
        """Seconds that are not used yet; negative where it was overrun."""
        return self.seconds - self.used

    @contextmanager
    def counting(self) -> Iterator[None]:
        """Time that passes in the block is used; blocks may lie in one another."""
        if self._since is not None:
            yield
            return
        self._since = self.clock()
        try:
            yield
        finally:
            self._used, self._since = self.used, None
