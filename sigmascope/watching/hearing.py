"""The loss and the learning rate of every step: noted at once, heard some at a time.

Between two steps of training the code that hears a loss has left the caches of the processor, so
that one takes ten times as long as another behind it. Short steps cannot pay for that, and several
are heard together; the losses of long ones are heard one by one.
"""

from collections.abc import Callable

from torch import Tensor

from sigmascope.watching.alarms import Alarms
from sigmascope.watching.probes import Losses
from sigmascope.watching.purses import Purses

SHARE = 0.2  # of the budget
MOST = 32  # steps that are heard together
LESS = 3  # times below its share, fewer are
NOTES = 2  # times a note: the hooks of the optimiser, which note the rate and count steps


class Hearing:
    """Notes losses and rates of this process, and lets the alarms hear them.

    Args:
        alarms: Who hears.
        losses: Who reads them at looks.
        budget: Share of the training time that watching may take.
        clock: In seconds.

    Attributes:
        every: Steps that are heard together.
    """

    def __init__(
        self, alarms: Alarms, losses: Losses, budget: float, clock: Callable[[], float]
    ) -> None:
        self._alarms, self._into = alarms, losses
        self._budget, self._clock = budget * SHARE, clock
        self._losses: list[float | Tensor] = []
        self._rates: list[float] = []
        self._note = 0.0  # seconds of one
        self.every = 1

    def rate(self, rate: float) -> bool:
        """Note the learning rate of a step; whether no loss comes, so that it is time to hear."""
        self._rates.append(rate)
        return len(self._rates) > self.every

    def loss(self, loss: float | Tensor) -> bool:
        """Note the loss of a step, behind its rate; whether it is time to hear."""
        noted = self._losses
        if noted:
            noted.append(loss.detach() if isinstance(loss, Tensor) else loss)
        else:
            start = self._clock()
            noted.append(loss.detach() if isinstance(loss, Tensor) else loss)
            self._note = self._clock() - start
        return len(noted) >= self.every

    def hear(self, purses: Purses) -> bool:
        """Let the alarms hear what was noted.

        Args:
            purses: Which pay for it.

        Returns:
            Whether a look is worth its price now.
        """
        steps = max(len(self._rates), len(self._losses))
        if not steps:
            return False
        start = self._clock()
        hints = [*map(self._alarms.hear_rate, self._rates), *map(self._hears, self._losses)]
        self._rates.clear()
        self._losses.clear()
        took = self._clock() - start
        purses.aside(took + NOTES * steps * self._note)
        self._settle(took, steps, purses.step_seconds * self._budget)
        return any(hints)

    def _hears(self, loss: float | Tensor) -> bool:
        if isinstance(loss, Tensor) and not loss.is_cpu:  # it is not waited for
            self._into.add(loss)
            return False
        value = float(loss)
        self._into.add(value)
        return self._alarms.hear(value)

    def _settle(self, took: float, steps: int, paid: float) -> None:
        """How many are heard together: as few as their share of the budget pays for."""
        if steps < self.every or not paid:
            return
        if took > paid * steps:
            self.every = min(2 * self.every, MOST)
        elif took * LESS < paid * steps:
            self.every = max(self.every // 2, 1)
