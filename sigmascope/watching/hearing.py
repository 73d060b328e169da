"""The loss and the learning rate of every step: noted at once, heard some at a time.

Between two steps of training the code that is run here has left the caches of the processor, so
that it takes five to ten times as long as in a loop of its own. What is done at every step is
therefore two short functions: a hook of the optimiser that notes the rate, of whose notes the
steps are counted, and one that notes the loss and compares it with what would be a rise. What is
usual is heard in blocks; what is not, at once. A loss on a device is brought to the host in blocks.
"""

import logging
import math
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.optim import Optimizer

from sigmascope.watching.alarms import Alarms
from sigmascope.watching.columns import Column
from sigmascope.watching.loss_means import LossMeans
from sigmascope.watching.probes import Losses
from sigmascope.watching.purses import Purses

LOG = logging.getLogger("sigmascope")
SHARE = 0.25  # of the budget
MOST = 32  # steps that are heard together, where the loss of each is noted
LONGEST = 4  # times as many, where it is not
CALLS = 3.0  # times the note of a rate: what a step takes, with the calls of both, noted or not
DENSE = 100  # losses at first, that are all noted
FEWEST = 8  # one loss in so many steps is noted, at least
LOST = 256  # losses without a step, and times the most between two: steps are not seen
BUSY = 4.0  # times the usual note: a longer one was another process'
AWAY = 8  # losses on a device that are brought to the host together


class Hearing:
    """Notes losses and rates of this process, and lets the alarms hear them.

    Args:
        alarms: Who hears.
        losses: Who reads them at looks.
        means: Of the losses of all steps.
        budget: Share of the training time that watching may take.
        clock: In seconds.
        turn: Called behind a step of the optimiser at which there is something to do.
        step: Steps made before.

    Attributes:
        due: Notes of rates at which there is something to do.
        apart: The loss of one step in so many is noted.
        skip: Losses that come before the next that is noted.
    """

    def __init__(
        self,
        alarms: Alarms,
        losses: Losses,
        means: LossMeans,
        budget: float,
        clock: Callable[[], float],
        turn: Callable[[], None],
        *,
        step: int = 0,
    ) -> None:
        self._alarms, self._into = alarms, losses
        self._means = means
        self._budget, self._clock, self._turn = budget * SHARE, clock, turn
        self._early: int | None = None  # 1 where each loss is handed in before its step
        self._losses: list[float | Tensor] = []
        self._at: list[int] = []  # how many rates stood before each
        self._rates: list[Any] = []
        self._before, self.skip, self._dense = step, 0, DENSE
        self._begun = self._known = step
        self._rate_note = self._loss_note = self._each = 0.0  # seconds of one
        self._top, self._low, self._high = alarms.bounds
        self._since, self._between = 0.0, 1.0  # losses since the last step, and most between two
        self._next: float = 0
        self.due: float = 1
        self.apart = 1

    @property
    def steps(self) -> int:
        """Of the optimiser, so far."""
        return self._before + len(self._rates)

    @property
    def _most(self) -> int:
        """Steps that are heard together: calling everyone who hears costs more than the steps."""
        return MOST * min(self.apart, LONGEST)

    @property
    def full(self) -> bool:
        """Whether it is time to hear, whatever the losses are."""
        rates = self._rates
        return len(rates) > self._most or (bool(rates) and self._strange(rates[-1]))

    def stepped(self, optimizer: Optimizer, *_: Any) -> None:
        """A hook: count a step, and note its learning rate."""
        rates = self._rates
        if rates:
            rates.append(rate := optimizer.param_groups[0].get("lr"))
        else:
            start = self._clock()
            rates.append(rate := optimizer.param_groups[0].get("lr"))
            self._rate_note = smoothed(self._rate_note, self._clock() - start)
        if len(rates) >= self.due or self._strange(rate):
            self._turn()

    def loss(self, loss: float | Tensor) -> bool:
        """Note the loss of a step, behind its rate; whether it is time to hear."""
        self.skip = self.apart - 1
        self._since += self.apart
        noted = self._losses
        start = 0.0 if noted else self._clock()
        away = False
        if isinstance(loss, Tensor):
            away = not loss.is_cpu
            loss = loss.detach() if away else loss.item()
        noted.append(loss)
        self._at.append(len(self._rates))
        if start:
            self._loss_note = smoothed(self._loss_note, self._clock() - start)
        if away:  # it is not waited for
            return len(noted) >= AWAY
        if loss < self._top:
            return len(noted) >= MOST
        self.skip = 0  # what looks like a rise is followed step by step
        return True

    def hear(self, purses: Purses, *, look: bool = False) -> bool:
        """Let the alarms hear what was noted.

        Args:
            purses: Which pay for it.
            look: Whether it is at a look, where several processes wait for one another.

        Returns:
            Whether a look is worth its price now.
        """
        rates, count = self._rates, len(self._losses)
        steps = len(rates)
        self._look_for_steps(steps)
        if not (steps or count):
            return False
        start = self._clock()
        losses = on_host(self._losses)
        at = [self._step_of(each) for each in self._at]
        known = [r for r in rates if isinstance(r, float)]
        hints = self._heard(known, [*zip(at, losses, strict=True)])
        self._top, self._low, self._high = self._alarms.bounds
        self._before += steps
        for noted in (rates, self._losses, self._at):
            noted.clear()
        self.wait(self._next)
        took = self._clock() - start
        purses.aside(took + steps * CALLS * self._rate_note + count * self._loss_note)
        self._settle(took, count, purses.step_seconds * self._budget)
        if hints:
            self.apart = 1
        return hints

    def rest(self, purses: Purses) -> Column | None:
        """Let the alarms hear what was noted last; the last loss, where no look has read it."""
        self.hear(purses)
        return self._into.rest()

    def _heard(self, rates: Sequence[float], losses: Sequence[tuple[int, float]]) -> bool:
        """What all hear, by step; whether a look is worth its price."""
        hints = self._alarms.hear(rates, [loss for _, loss in losses], self.apart)
        for step, loss in losses:
            self._into.add(step, loss)
            self._means.add(step, loss)
        return hints

    def _step_of(self, rates: int) -> int:
        """Of which step a loss is that came behind so many rates.

        Of the last that was made, or of the next where loops hand it in before: in these the first
        comes before any step, and no two between two steps, as those of accumulated gradients do.
        """
        made = self._before + rates
        if self._early is None:
            self._early = int(made == self._begun)
        elif made == self._known:
            self._early = 0
        self._known = made
        return max(made + self._early, self._begun + 1)

    def _look_for_steps(self, steps: int) -> None:
        """Say once that losses come and steps do not: another optimiser may train."""
        if steps:
            self._between = max(self._between, -(-self._since // steps))
            self._since = 0
        elif LOST <= self._since < math.inf and self._since >= 4 * self._between:
            LOG.warning(
                "sigmascope has seen %d losses since step %d and no step of the optimiser that it "
                "was handed: hand a new watch the one that steps now", self._since, self.steps,
            )  # fmt: skip
            self._since = -math.inf

    def wait(self, step: float) -> None:
        """There is something to do before this step; 0 for at the end of every one."""
        self._next = step
        self.due = max(1, min(self._most + 1, step - 1 - self._before))

    def _strange(self, rate: Any) -> bool:
        """Whether a rate is heard at once; one in a tensor is never waited for."""
        return type(rate) is float and not self._low <= rate <= self._high

    def _settle(self, took: float, count: int, paid: float) -> None:
        """At how many steps losses are noted: at as many as their share of the budget pays for."""
        self._dense -= count
        if count and paid and self._dense <= 0:
            self._each = smoothed(self._each, self._loss_note + took / count)
            self.apart = min(max(math.ceil(self._each / paid), 1), FEWEST)


def on_host(noted: Sequence[float | Tensor]) -> list[float]:
    """Losses as numbers; those on a device are brought here at once."""
    away = [x.reshape(()).double() for x in noted if isinstance(x, Tensor)]
    there = iter(torch.stack(away).tolist() if away else ())
    return [next(there) if isinstance(x, Tensor) else x for x in noted]


def smoothed(before: float, now: float) -> float:
    """What is usual, after it took so long once more."""
    return before + 0.2 * (min(now, BUSY * before) - before) if before else now
