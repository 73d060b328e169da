"""What each trained matrix is in its model, and whether its optimizer is meant to be Muon.

Readings do not tell that, and rules that speak of the steps of one matrix need it.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from torch import nn
from torch.optim import Optimizer

Role = Literal["embedding", "readout", "vector", ""]


@dataclass(frozen=True, slots=True)
class TrainedMatrix:
    """A weight of two sides or more, unfolded to `[rows, cols]`, as one optimizer trains it.

    Attributes:
        rows: Its outputs.
        cols: Its inputs, times the places of a kernel.
        role: An embedding, the readout, one row or column alone, or any other.
        group: A number for each group of each optimizer.
        meant: Whether its optimizer or its group calls itself Muon.
        steps: Of Newton and Schulz, if its group says how many.
    """

    rows: int
    cols: int
    role: Role
    group: int
    meant: bool
    steps: int | None = None

    @property
    def side(self) -> int:
        """The smaller one, which no stable rank is above."""
        return min(self.rows, self.cols)

    @property
    def of_noise(self) -> float:
        """The stable rank of independent entries of this shape (Bai & Yin 1993)."""
        large, small = max(self.rows, self.cols), self.side
        return small * large / (math.sqrt(large) + math.sqrt(small)) ** 2


def trained_matrices(
    model: nn.Module, optimizers: Sequence[Optimizer]
) -> Mapping[str, TrainedMatrix]:
    """Those of a model that optimizers train, by the names of the parameters.

    The readout is the last matrix in the model's order, where none reads as many inputs as it has
    outputs. Of one row or column nothing is said but where Muon of torch trains it: others may
    leave it to Adam by themselves.
    """
    groups = [(o, g) for o in optimizers for g in o.param_groups]
    at = {id(p): i for i, (_, group) in enumerate(groups) for p in group["params"]}
    tables = [m for m in model.modules() if isinstance(m, nn.Embedding | nn.EmbeddingBag)]
    embeddings = {id(m.weight) for m in tables}
    every = [(n, p) for n, p in model.named_parameters() if p.ndim > 1 and p.numel()]
    inner = [p for _, p in every if id(p) not in embeddings]
    inputs = {p.numel() // p.shape[0] for p in inner}
    found: dict[str, TrainedMatrix] = {}
    for name, p in every:
        if id(p) not in at:
            continue
        optimizer, group = groups[at[id(p)]]
        steps = group.get("ns_steps")
        by_name = "muon" in type(optimizer).__name__.lower()
        meant = bool(group.get("use_muon", by_name or isinstance(steps, int)))
        rows, cols = p.shape[0], p.numel() // p.shape[0]
        role: Role = ""
        if min(rows, cols) == 1:
            if not (meant and type(optimizer).__module__.startswith("torch.")):
                continue
            role = "vector"
        elif id(p) in embeddings:
            role = "embedding"
        elif p is inner[-1] and rows not in inputs:
            role = "readout"
        known = steps if isinstance(steps, int) else None
        found[name] = TrainedMatrix(rows, cols, role, at[id(p)], meant, known)
    return found
