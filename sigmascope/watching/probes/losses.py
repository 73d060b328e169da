"""The losses that the training loop hands in."""

import math
from collections.abc import Iterator

import torch
from torch import Tensor

from sigmascope.watching.columns import Column
from sigmascope.watching.looks import LOSS
from sigmascope.watching.probes.base import Found, Probe

KEPT = 64  # losses since the last look, at most


class Losses(Probe):
    """The last loss and the largest since the last look, in the mean over processes."""

    name = "loss"
    share = 0.0

    def __init__(self) -> None:
        self._given: list[Tensor | float] = []

    def add(self, loss: float | Tensor) -> None:
        """The loss of one step; a tensor is looked at only when the next look is taken."""
        self._given.append(loss.detach() if isinstance(loss, Tensor) else loss)
        if len(self._given) > 2 * KEPT:
            del self._given[:-KEPT]

    def local(self) -> Tensor:
        values = [float(loss) for loss in self._given[-KEPT:]]
        self._given.clear()
        rest = [0.0] * (KEPT - len(values))
        return torch.tensor([*values, *rest, *[1.0] * len(values), *rest], dtype=torch.float64)

    def read(self, total: Tensor) -> Iterator[Found]:
        numbers = total.tolist()
        pairs = zip(numbers[:KEPT], numbers[KEPT:], strict=True)
        losses = [summed / count for summed, count in pairs if count > 0]
        if losses:
            bad = [x for x in losses if math.isnan(x)]
            yield Column("loss", [LOSS], [bad[0] if bad else losses[-1]])
            yield Column("loss", [LOSS], [bad[0] if bad else max(losses)], form="largest")
