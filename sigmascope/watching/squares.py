"""Squared norms of all trained parameters at once, and of whatever has their shapes.

Whatever one layer costs in Python is paid for every layer at every look, so that all parameters of
an optimiser go through one call of torch, in groups of one precision.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.optim import Optimizer

from sigmascope.watching.places import Place
from sigmascope.watching.processes import Processes, part, sharded_kind

HALVES = (torch.float16, torch.bfloat16)
NARROW = 2**20  # entries of float32 whose squares are added up as they are
FOREACH: Any = torch  # its fused operations on lists have no public names


@dataclass(frozen=True, slots=True)
class _Group:
    """Parameters of one optimiser whose squares are added up in one precision."""

    at: list[int]
    dtype: torch.dtype
    plain: bool  # they are in that precision


class Squares:
    """Squared norms of tensors that belong to the trained parameters, by their place.

    Args:
        places: The trained layers.
        processes: Those that train the model.
    """

    def __init__(self, places: Sequence[Place], processes: Processes) -> None:
        self.places, self.processes = places, processes
        self.parameters = [p for place in places for p in place.parameters]
        parts = [part(p.detach(), processes) for p in self.parameters]
        self.sizes = [p.tensor.numel() for p in parts]
        self._copies = torch.tensor([float(p.copies) for p in parts], dtype=torch.float64)
        kind = sharded_kind()
        self.sharded = kind is not None and any(isinstance(p, kind) for p in self.parameters)
        self._groups = {o: self._grouped(o) for o in {p.optimizer for p in places}}
        self.error = max((_error(t.tensor) for t in parts), default=0.0)

    def empty(self) -> Tensor:
        """Of no parameter: squares, and whether they are there."""
        return torch.zeros(2, len(self.parameters), dtype=torch.float64)

    def held(self, tensor: Tensor) -> Tensor:
        """This process' entries of a parameter or of what belongs to one."""
        if tensor.is_sparse:
            return tensor.coalesce().values()
        return part(tensor, self.processes).tensor if self.sharded else tensor

    def add(
        self, out: Tensor, optimizer: Optimizer, tensors: Callable[[int], Tensor | None]
    ) -> None:
        """Put squared norms into `out`, those of an optimiser's parameters that have a tensor."""
        for group in self._groups.get(optimizer, ()):
            found = {i: t for i in group.at if (t := tensors(i)) is not None}
            if len(found) == len(self.sizes):
                torch.div(_norms([*found.values()], group).square_(), self._copies, out=out[0])
                out[1].fill_(1)
            elif found:
                at = [*found]
                out[0, at] = _norms([*found.values()], group).square_().div_(self._copies[at])
                out[1, at] = 1

    def norms(self, total: Tensor, needed: Callable[[Sequence[float]], bool]) -> dict[str, float]:
        """The norm at each place that was read; `needed` says of which of its parameters."""
        squares, there = total.view(2, -1).tolist()
        found, i = {}, 0
        for place in self.places:
            end = i + len(place.parameters)
            if needed(there[i:end]):
                square = sum(squares[i:end])
                found[place.site] = math.sqrt(square) if square >= 0 else math.nan
            i = end
        return found

    def of(self, optimizer: Optimizer) -> list[int]:
        """The numbers of an optimiser's parameters."""
        return [i for group in self._groups.get(optimizer, ()) for i in group.at]

    def _grouped(self, optimizer: Optimizer) -> list[_Group]:
        mine = {id(p) for place in self.places if place.optimizer is optimizer
                for p in place.parameters}  # fmt: skip
        groups: dict[tuple[torch.dtype, torch.dtype], list[int]] = {}
        for i, p in enumerate(self.parameters):
            if id(p) in mine and self.sizes[i]:
                groups.setdefault((_summing(p, self.sizes[i]), p.dtype), []).append(i)
        return [_Group(at, wide, wide == own) for (wide, own), at in groups.items()]


def _norms(tensors: list[Tensor], group: _Group) -> Tensor:
    """In float64; one that leaves the range of its format is taken again in float64."""
    args = (tensors,) if group.plain else (tensors, 2, group.dtype)
    found = torch.stack(FOREACH._foreach_norm(*args)).double().cpu()
    bad = [] if math.isfinite(float(found.sum())) else (~found.isfinite()).nonzero().flatten()
    for i in map(int, bad):
        found[i] = torch.linalg.vector_norm(tensors[i], dtype=torch.float64)
    return found


def _summing(t: Tensor, size: int) -> torch.dtype:
    if t.dtype in HALVES:
        return torch.float32
    return torch.float64 if t.dtype == torch.float32 and size > NARROW else t.dtype


def _error(t: Tensor) -> float:
    """By which a norm may be off, relatively: `n` roundings of the squares (Higham 2002, (3.5))."""
    narrow = _summing(t, t.numel()) != torch.float64
    return (min(t.numel(), NARROW) + 4) * 2.0**-24 if narrow else (t.numel() + 4) * 2.0**-53
