"""The losses that the training loop hands in."""

import math
from collections.abc import Iterator

import torch
from torch import Tensor

from sigmascope import quantities as q
from sigmascope.watching.columns import Column
from sigmascope.watching.looks import LOSS
from sigmascope.watching.probes.base import Found, Probe

KEPT = 64  # losses since the last look, at most


class Losses(Probe):
    """The last loss and the largest since the last look, in the mean over processes.

    A look is taken within a step of the optimiser, where its own loss is not handed in yet: each
    goes with the step that it is of.
    """

    name = q.LOSS
    share = 0.0

    def __init__(self) -> None:
        self._given: list[tuple[int, Tensor | float]] = []
        self._last: int | None = None

    def add(self, step: int, loss: float | Tensor) -> None:
        """The loss of one step; a tensor is looked at only when the next look is taken."""
        self._given.append((step, loss.detach() if isinstance(loss, Tensor) else loss))
        if len(self._given) > 2 * KEPT:
            del self._given[:-KEPT]

    def local(self) -> Tensor:
        values = [float(loss) for _, loss in self._given[-KEPT:]]
        self._last = self._given[-1][0] if self._given else None
        self._given.clear()
        rest = [0.0] * (KEPT - len(values))
        return torch.tensor([*values, *rest, *[1.0] * len(values), *rest], dtype=torch.float64)

    def read(self, total: Tensor) -> Iterator[Found]:
        numbers = total.tolist()
        pairs = zip(numbers[:KEPT], numbers[KEPT:], strict=True)
        losses = [summed / count for summed, count in pairs if count > 0]
        if losses:
            bad = [x for x in losses if math.isnan(x)]
            last, largest = (bad[0], bad[0]) if bad else (losses[-1], max(losses))
            yield Column(q.LOSS, [LOSS], [last], step=self._last)
            yield Column(q.LOSS, [LOSS], [largest], form="largest", step=self._last)

    def rest(self) -> Column | None:
        """The last loss of this process that no look has read, for when none follows."""
        if not self._given:
            return None
        step, loss = self._given[-1]
        self._given.clear()
        return Column(q.LOSS, [LOSS], [float(loss)], step=step)
