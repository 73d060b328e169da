"""Steps of training against a budget of time.

What cannot be done in time is found out early: after a few steps, the fastest of them times those
that are left is the least that the rest takes. A machine that was busy for a moment is no reason to
stop: some of the budget is spent before.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from sigmascope.gate import Budget, OverBudget, time_words

TIMED = 3  # steps after which something is foretold; the first ones warm up
SPENT = 0.05  # of the budget, before which nothing is given up
LONG = 5.0  # seconds, above which the cost is told
ROOM = 1.25  # times what is foretold, in the budget that is proposed

T = TypeVar("T")


@dataclass(slots=True)
class Pace:
    """Steps that are made against a budget.

    Attributes:
        budget: Of all that is made with it.
        what: Is made, as the beginning of "... needs 336 training steps".
        steps: That are wanted in all.
        beside: What else it costs, in words.
        among: How many share the user's budget, of which this one is a part.
        made: So far.
        fastest: Seconds of the fastest step so far; infinite where none was timed.
    """

    budget: Budget
    what: str
    steps: int
    beside: str = ""
    among: int = 1
    made: int = 0
    fastest: float = math.inf
    _timed: int = 0
    _spent: float = 0.0

    @property
    def needed(self) -> float:
        """Seconds that all steps take at least, at the speed of the fastest."""
        return self.steps * self.fastest

    @property
    def hopeless(self) -> bool:
        """Whether the budget is used up, or too small for the rest at the fastest speed so far."""
        known = self._timed >= TIMED and self._spent >= SPENT * self.budget.seconds
        return self.budget.left <= (self.fastest * max(self.steps - self.made, 0) if known else 0)

    def words(self) -> str:
        """That the budget is too small, and how to allow more."""
        known = self._timed > 0
        takes = f", about {time_words(self.needed)}" if known else ""
        more = self.among * max(ROOM * self.needed if known else 0, 2 * self.budget.seconds)
        minutes = max(1, math.ceil(more / 60))
        part = f" for each of {self.among}" if self.among > 1 else ""
        return (
            f"{self.what} needs {self.steps} training steps{takes}, and {self.made} were made in a "
            f"budget of {time_words(self.budget.seconds)}{part}, from which nothing is foretold: "
            f"allow more, `--budget {minutes}min` (`budget={60 * minutes}` in Python), or take "
            "fewer samples."
        )

    def made_in_time(self, step: Callable[[], T]) -> T:
        """One step, which is timed and counted, unless not all will be made in time.

        Raises:
            OverBudget: With what was made, what all takes, and how to allow it.
        """
        if self.hopeless:
            raise OverBudget(self.words())
        began = self.budget.clock()
        result = step()
        self.made += 1
        self._timed += 1
        took = self.budget.clock() - began
        self._spent += took
        self.fastest = min(self.fastest, took)
        if self._timed == TIMED and self.needed > LONG and self.budget.tell is not None:
            self.budget.tell(
                f"{self.what}: {self.steps} training steps, about {time_words(self.needed)}"
                f"{self.beside}; the budget is {time_words(self.budget.seconds)}"
            )
        return result
