"""The scale of what the first layer reads, at one step in some: a glance that a look may follow.

Looks of small fast models are hundreds of steps apart, and inputs that change may not show in the
loss. Their mean square over some rows costs a hook for one step, so that it is taken often; where
it has changed, the next step is looked at as a whole, and the alarm rests on that alone.
"""

import math
from collections.abc import Callable, Sequence
from typing import Any

from torch import Tensor, nn

from sigmascope import quantities as q
from sigmascope.probes.execution import layers
from sigmascope.watching.alarms import Alarms
from sigmascope.watching.columns import Column
from sigmascope.watching.hooks import inaudible, listening, removed
from sigmascope.watching.probes import Probe
from sigmascope.watching.processes import entries
from sigmascope.watching.purses import Purses

SHARE = 0.25  # of the budget
EVERY, LEAST = 16, 64  # steps between two glances, where they are paid for; and one in so many is
ENTRIES = 2**14  # that are looked at, in whole rows
FAR, KNOWN = math.log(8.0), 4  # in mean squares, and glances before anything is usual
WEIGHT = 0.2  # of the last glance in what is usual
READ_BY = "activations"


class Inputs:
    """Glances at the inputs, and wants a look where their scale has changed.

    Args:
        model: The user's own module; None where nothing is to be glanced at.
        alarms: Who learn from glances what is usual.
        budget: Share of the training time that watching may take.
        clock: In seconds.

    Attributes:
        next: The step before which there is something to do.
        compiled: Whether the hook was met where code is compiled.
    """

    def __init__(
        self,
        model: nn.Module | None,
        alarms: Alarms,
        *,
        budget: float,
        clock: Callable[[], float],
        step: int = 0,
    ) -> None:
        found = {} if model is None else layers(model)
        self._site, first = next(iter(found.items()), ("", None))
        self._alarms = alarms
        heard = first is not None and model is not None and first not in inaudible(model)
        self._module, self._budget, self.clock = first, budget * SHARE, clock
        self.next: float = step + EVERY if heard else math.inf
        self.compiled, self._level, self._count, self._cost = False, 0.0, 0, 0.0
        self._handles: list[Any] = []
        self._size: Tensor | None = None

    @classmethod
    def of(cls, model: nn.Module, alarms: Alarms, probes: Sequence[Probe], **of: Any) -> "Inputs":
        """Where the activations of a model are read; each process glances at its own."""
        glanced = READ_BY in {p.name for p in probes}
        return cls(model if glanced else None, alarms, **of)

    def turn(self, step: int, purses: Purses, hurry: Callable[[int, str], bool]) -> bool:
        """Between two steps: begin a glance, or end one.

        Args:
            step: Made so far.
            purses: Which pay for it.
            hurry: Asks for a look at the next step, at which a probe of that name is read.

        Returns:
            Whether the look is to be opened.
        """
        if step + 1 < self.next:
            return False
        start, looked = self.clock(), False
        if self._handles:
            self.close()
            looked = self._ended(step, purses, hurry)
        elif self._module is not None:
            self._handles = listening([(self._module, self._hear)], self)
            self.next = step + 2
        self.spent(self.clock() - start)
        purses.aside(self._cost)
        self._cost = 0.0
        return looked

    def spent(self, seconds: float) -> None:
        """This glance took so long."""
        self._cost += seconds

    def failed(self, error: Exception) -> None:
        """No glance is taken any more; a look says what it fails at."""
        self._module = None

    def close(self) -> None:
        """Take the hook away."""
        removed(self._handles)

    def _hear(self, x: Tensor, _: Any) -> None:
        x = entries(x)
        if self._size is None and x.is_cpu and x.is_floating_point() and x.numel():
            rows = max(1, ENTRIES * len(x) // x.numel()) if x.ndim else 0
            self._size = x[:rows].double().square().mean()

    def _ended(self, step: int, purses: Purses, hurry: Callable[[int, str], bool]) -> bool:
        size, self._size = self._size, None
        if size is None or self.compiled or self._module is None:
            self._module, self.next = None, math.inf
            return False
        value = size.item()
        x = math.log(value) if math.isfinite(value) and value > 0 else self._level
        self._alarms.glance(step, Column(q.MEAN_SQUARE, [self._site], [value]))
        self._count += 1
        far = self._count > KNOWN and abs(x - self._level) > FAR
        self.next = step + 2 if far else step + 1 + self._apart(purses)
        if far and not hurry(step, READ_BY):
            return False
        self._level += (1.0 if far else max(WEIGHT, 1 / self._count)) * (x - self._level)
        return far

    def _apart(self, purses: Purses) -> int:
        paid = purses.step_seconds * self._budget
        return min(max(EVERY, math.ceil(2 * self._cost / paid)), LEAST) if paid else EVERY
