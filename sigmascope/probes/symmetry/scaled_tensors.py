"""Beside every number of one run, the unknown by which a rescaling of units multiplies it.

Labels lie in shadows of the tensors' memory, so that views need no rule: whatever shares memory
shares labels. Label 0 is what no rescaling may change.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import numpy as np
import torch
from torch import Tensor

from sigmascope.probes.symmetry.parameter_layout import Edge, Frame, edges, ids_of, splits
from sigmascope.probes.symmetry.scale_equations import ZERO, Unknowns

MOST_ENTRIES = 2**20  # of a parameter whose entries are followed one by one
INPUT = "the input, which no weight scales"
ZEROS = "zeros"  # which go with every scale


@dataclass(slots=True)
class Owner:
    """A learnable parameter, and where it begins in its memory."""

    name: str
    tensor: Tensor
    first: int = 0  # the unknown of its first entry, if they are followed one by one
    clash: str = ""


@dataclass(slots=True)
class Shadows:
    """Labels of tensors, and the equations that operations impose on them."""

    unknowns: Unknowns = field(default_factory=Unknowns)
    owners: dict[int, list[Owner]] = field(default_factory=dict)
    frames: dict[str, Frame] = field(default_factory=dict)
    _labels: dict[int, Tensor] = field(default_factory=dict)
    _reasons: dict[int, str] = field(default_factory=dict)
    _held: list[Tensor] = field(default_factory=list)
    _bundles: int = 0

    def own(self, parameters: Mapping[str, Tensor]) -> None:
        """Say which tensors are learnable parameters."""
        for name, p in parameters.items():
            owner = Owner(name, p, clash="" if p.is_contiguous() else "it is not stored in order")
            self.owners.setdefault(_memory(p), []).append(owner)

    def disown(self, constants: Mapping[str, Tensor]) -> None:
        """Say which tensors of the model are not trained."""
        for name, t in constants.items():
            self._reasons[_memory(t)] = f"what comes from {name}, which is not trained"

    def new_bundle(self) -> int:
        """A number for a place where unknowns are made."""
        self._bundles += 1
        return self._bundles

    def hold(self, values: Iterable[Tensor]) -> None:
        """Keep tensors alive, so that no memory is used twice."""
        self._held.extend(values)

    def owner(self, t: Tensor) -> Owner | None:
        """The learnable parameter that a tensor is a view of."""
        for owner in self.owners.get(_memory(t), ()):
            start = int(owner.tensor.storage_offset())
            if start <= int(t.storage_offset()) < start + owner.tensor.numel():
                return owner
        return None

    def of(self, t: Tensor) -> Tensor | None:
        """Labels of a tensor, entry by entry; None where all are zero."""
        memory = _memory(t)
        if memory in self.owners:
            self._follow(t)
        shadow = self._labels.get(memory)
        if shadow is None or not t.is_floating_point():
            return None
        found = shadow.as_strided(t.size(), t.stride(), t.storage_offset())
        return found if bool(found.any()) else None

    def _follow(self, t: Tensor) -> None:
        """Give each entry of a parameter an unknown of its own."""
        owner = self.owner(t)
        if owner is None or owner.first or owner.clash:
            return
        size = owner.tensor.numel()
        if owner.name in self.frames:
            owner.clash = "it is used as a matrix and entry by entry"
        elif size > MOST_ENTRIES:
            owner.clash = "it is too large to be followed entry by entry"
        if owner.clash:
            return
        owner.first = self.unknowns.fresh(size, self.new_bundle())
        ids = torch.arange(owner.first, owner.first + size, dtype=torch.int32)
        start = int(owner.tensor.storage_offset())
        self._shadow(owner.tensor)[start : start + size] = ids

    def _shadow(self, t: Tensor) -> Tensor:
        memory = _memory(t)
        if memory not in self._labels:
            count = t.untyped_storage().nbytes() // t.element_size()
            self._labels[memory] = torch.zeros(count, dtype=torch.int32)
        return self._labels[memory]

    def write(self, t: Tensor, labels: Tensor | None, why: str = "") -> None:
        """Set the labels of what an operation wrote."""
        memory = _memory(t)
        if labels is None:
            self._reasons[memory] = why or self._reasons.get(memory, INPUT)
            if memory not in self._labels:
                return
            labels = torch.zeros((), dtype=torch.int32)
        if memory in self.owners:  # a parameter was overwritten in the forward pass
            for owner in self.owners[memory]:
                owner.clash = "the forward pass overwrites it"
            return
        shadow = self._shadow(t).as_strided(t.size(), t.stride(), t.storage_offset())
        shadow.copy_(labels.expand(t.shape))

    def why(self, t: Tensor) -> str:
        """Why the labels of a tensor are zero."""
        owner = self.owner(t)
        if owner is not None and owner.clash:
            return f"{owner.name}: {owner.clash}"
        return self._reasons.get(_memory(t), INPUT)

    def empty(self, t: Tensor) -> bool:
        """Whether a tensor was made of zeros and has not been written to."""
        return self.why(t) == ZEROS and not bool(t.any())

    def pin(self, t: Tensor, why: str) -> None:
        """Say that nothing may rescale a tensor."""
        owner = self.owner(t)
        if owner is not None and not owner.first:
            owner.clash = owner.clash or f"it is read by {why}"
            return
        labels = self.of(t)
        if labels is not None:
            self.unknowns.pin(ids_of(compact(labels)[0].unique()), why)

    def edges(self, matrix: Tensor) -> tuple[Edge, Edge] | None:
        """What the two axes of a parameter's view run along; None if it is no such view."""
        owner = self.owner(matrix)
        if owner is None or owner.clash:
            return None
        if owner.first:
            owner.clash = "it is used as a matrix and entry by entry"
            return None
        frame = self.frames.get(owner.name)
        shape, offset = tuple(owner.tensor.shape), int(owner.tensor.storage_offset())
        tried = [frame] if frame else [Frame(owner.name, shape, s, 0) for s in splits(shape)]
        for candidate in tried:
            found = None if candidate.groups else edges(matrix, offset, candidate)
            if found is not None:
                made = self._made(candidate)
                return Edge(made, *found[0]), Edge(made, *found[1])
        owner.clash = "its rows and columns are mixed before it is used"
        return None

    def kernel(self, weight: Tensor, groups: int) -> Frame | None:
        """The frame of a convolution's kernel; None if it is no learnable parameter."""
        owner = self.owner(weight)
        if owner is None or owner.clash:
            return None
        frame = self.frames.get(owner.name)
        whole = tuple(weight.shape) == tuple(owner.tensor.shape) and weight.is_contiguous()
        if owner.first or not whole or (frame is not None and frame.groups != groups):
            owner.clash = "it is used as a kernel and otherwise"
            return None
        return self._made(frame or Frame(owner.name, tuple(weight.shape), 1, groups))

    def _made(self, frame: Frame) -> Frame:
        if frame.name not in self.frames:
            rows, columns = frame.counts
            frame.rows = self.unknowns.fresh(rows, self.new_bundle())
            frame.columns = self.unknowns.fresh(columns, self.new_bundle())
            self.frames[frame.name] = frame
            if frame.groups > 1:  # units of different groups read different channels
                signature = self.unknowns.signature
                signature[frame.rows : frame.rows + rows] = frame.group_of("rows")
                signature[frame.columns : frame.columns + columns] = frame.group_of("columns")
        return frame

    def derived(self, *operands: tuple[float, Tensor]) -> Tensor:
        """Labels of a product of powers: `Σ factor * label`, for one or two operands."""
        shapes = torch.broadcast_shapes(*(ids.shape for _, ids in operands))
        spread = [ids.expand(shapes) for _, ids in operands]
        small = compact(*spread)
        keys = torch.stack([t.flatten().long() for t in small])
        unique, places = keys.unique(dim=1, return_inverse=True)
        new = torch.zeros(unique.shape[1], dtype=torch.int32)
        alive = unique.any(0)
        first = self.unknowns.fresh(int(alive.sum()), self.new_bundle())
        new[alive] = torch.arange(first, len(self.unknowns), dtype=torch.int32)
        left, right = unique[0, alive], unique[-1, alive] if len(unique) > 1 else None
        whole, a = new[alive], operands[0][0]
        if right is None:
            self.unknowns.total(ids_of(whole), ids_of(left), np.full(len(left), ZERO), a, 0.0)
        else:
            b = operands[1][0]
            self.unknowns.total(ids_of(whole), ids_of(left), ids_of(right), a, b)
        return new[places].reshape(small[0].shape).expand(shapes)

    def settle(self) -> None:
        """Pin what cannot be followed: parameters that are used in several incompatible ways."""
        for owner in (o for many in self.owners.values() for o in many if o.clash):
            why = f"{owner.name}: {owner.clash}"
            if owner.first:
                self.unknowns.pin(np.arange(owner.first, owner.first + owner.tensor.numel()), why)
            frame = self.frames.get(owner.name)
            if frame is not None:
                rows, columns = frame.counts
                self.unknowns.pin(np.arange(frame.rows, frame.rows + rows), why)
                self.unknowns.pin(np.arange(frame.columns, frame.columns + columns), why)


def compact(*tensors: Tensor) -> tuple[Tensor, ...]:
    """Tensors of one shape, without the repeats along axes on which all are constant."""
    found = tensors
    for axis in range(tensors[0].ndim):
        if all(_constant(t, axis) for t in found):
            found = tuple(t.narrow(axis, 0, 1) for t in found)
    return found


def _constant(t: Tensor, axis: int) -> bool:
    if t.shape[axis] <= 1 or t.stride(axis) == 0:
        return True
    return bool((t == t.narrow(axis, 0, 1)).all())


def _memory(t: Tensor) -> int:
    return t.untyped_storage().data_ptr()
