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
        out = torch.zeros(2, KEPT, dtype=torch.float64)
        out[0, : len(values)] = torch.tensor(values, dtype=torch.float64)
        out[1, : len(values)] = 1
        return out.flatten()

    def read(self, total: Tensor) -> Iterator[Found]:
        both = total.view(2, KEPT)
        there = both[1] > 0
        losses = (both[0][there] / both[1][there]).tolist()
        if losses:
            bad = [x for x in losses if math.isnan(x)]
            yield Column("loss", [LOSS], [bad[0] if bad else losses[-1]])
            yield Column("loss", [LOSS], [bad[0] if bad else max(losses)], form="largest")
