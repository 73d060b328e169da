"""Squares of a step, summed over units."""

from collections.abc import Mapping
from dataclasses import dataclass, field

import torch
from torch import Tensor

from sigmascope.probes.symmetry.families import Part


@dataclass(frozen=True, slots=True)
class StepSums:
    """Squares of one step's tensors, summed over the rows and columns that units are.

    A unit of one layer is a row there and a column of the next, so each tensor is squared once. In
    the tensors' own precision: what the sums round is as random as what the step itself did to the
    weights, and smaller by the square of how far they moved.

    Attributes:
        tensors: By name, detached.
    """

    tensors: Mapping[str, Tensor]
    _squared: dict[str, Tensor] = field(default_factory=dict)

    def of(self, part: Part) -> Tensor:
        """Sums over the units of a part."""
        squared = self._squared.get(part.tensor)
        if squared is None:
            tensor = self.tensors[part.tensor]
            tensor = tensor if tensor.dtype in (torch.float32, torch.float64) else tensor.float()
            squared = self._squared[part.tensor] = tensor * tensor
        if part.frame is None or part.side == "entries":
            found = squared.reshape(-1)
        else:
            found = part.frame.sums(squared, part.side)
        return found if part.whole else found[torch.from_numpy(part.index)].sum(1)
