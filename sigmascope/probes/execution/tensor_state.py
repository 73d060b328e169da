"""What tensors hold, kept while a model runs and put back where it was changed.

How a change is noticed: neither the version counter of a tensor nor its address tells of every one
(`weight.data.clamp_()`, NumPy views and fused kernels count no version), so values are compared,
and for that they are copied. Up to `AMPLE` bytes of a model that is all, or fewer where little
memory is allowed. Of what is beyond, whole copies are kept for its first run, in a file where they
would take more than `COPIES` of the memory allowed; of what that run has left alone, a checksum is
kept from then on, and a change that it finds, which cannot be undone, is an error.
"""

import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeGuard

import torch
from torch import Tensor
from torch.utils.weak import WeakIdKeyDictionary

from sigmascope.gate import Refusal, allowed
from sigmascope.probes.execution.spilled import Spill, Spilled, spills

if TYPE_CHECKING:
    from torch.distributed.tensor import DTensor

AMPLE = 2**28  # bytes of a model's tensors that are copied every time
EVERY = 0.125  # of the memory allowed, for such copies
COPIES = 0.5  # of it, for those of a first run, beside which layers write 0.4 of it
ROW = 4096  # words that a checksum adds up at once
TOGETHER = 64  # rows of them that are added up while the cache holds them
INTEGERS = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}
LEFT_ALONE: Any = WeakIdKeyDictionary()  # tensors of big models, with the runs that left them so


def is_sharded(tensor: Tensor) -> "TypeGuard[DTensor]":
    """Whether it is a DTensor; none is where their module, dear to import, was not imported."""
    sharding = sys.modules.get("torch.distributed.tensor")
    return sharding is not None and isinstance(tensor, sharding.DTensor)


@dataclass(slots=True)
class Keepsake:
    """One tensor as it was.

    Attributes:
        tensor: Itself.
        alias: The same memory, shape and strides, also if `tensor.data` is exchanged.
        values: A copy, in memory or in a file; None where a checksum stands for it.
        checksum: Of the values.
        leaf: Whether no operation has made it.
        wants: Whether it requires a gradient.
        grad: Its gradient.
        hooks: On its gradient.
    """

    tensor: Tensor
    alias: Tensor
    values: Tensor | Spilled | None
    checksum: tuple[int, ...] | None
    leaf: bool
    wants: bool
    grad: Tensor | None
    hooks: dict[Any, Any] | None

    def give_back(self) -> bool:
        """Put everything back; whether values had changed."""
        t, alias = self.tensor, self.alias
        if self.leaf and not t.is_leaf:
            t.detach_()
        if not _same_place(t, alias):
            t.data = alias
        changed = not self._holds()
        if changed:
            self._restore()
        if self.leaf:
            if t.requires_grad != self.wants:
                t.requires_grad_(self.wants)
            if t.grad is not self.grad:
                t.grad = self.grad
        if self.wants and (self.hooks or t._backward_hooks):
            self._restore_hooks()
        return changed

    def _restore_hooks(self) -> None:
        now = self.tensor._backward_hooks
        if (now or {}) != (self.hooks or {}):
            self.tensor._backward_hooks = None if self.hooks is None else now
            if now is not None and self.hooks is not None:
                now.clear()
                now.update(self.hooks)

    def _holds(self) -> bool:
        if isinstance(self.values, Spilled):
            return self.values.holds(self.alias)
        if self.values is not None:
            return _equal(self.alias, self.values)
        return self.checksum is None or checksum(self.alias) == self.checksum

    def _restore(self) -> None:
        if self.values is None:
            raise Refusal(
                f"The model must leave its weights as they are, or change them in every run, got a "
                f"tensor of shape {tuple(self.alias.shape)} that a later run has changed in place: "
                "it was too large to be copied every time, and is changed now. Load the model anew."
            )
        with torch.inference_mode(self.alias.is_inference()), torch.no_grad():
            if isinstance(self.values, Spilled):
                self.values.restore(self.alias)
            else:
                self.alias.copy_(self.values)


def keepsakes(tensors: Sequence[Tensor], fluid: frozenset[int]) -> list[Keepsake]:
    """Everything about some tensors.

    Args:
        tensors: Each once.
        fluid: Ids of buffers, which forward passes are free to change: always copied.

    Raises:
        Refusal: If copies have room neither in memory nor on disk.
    """
    ample = _ample(t for t in tensors if id(t) not in fluid)
    known = [not (ample or id(t) in fluid or t.is_meta) and t in LEFT_ALONE for t in tensors]
    sums = [checksum(t.detach()) if k else None for t, k in zip(tensors, known, strict=True)]
    copied = [t for t, s in zip(tensors, sums, strict=True) if s is None and not t.is_meta]
    needed = _bytes(copied)
    file = None
    if needed > COPIES * allowed():
        needed = _bytes(t for t in copied if spills(t))
        file = Spill(needed, COPIES) if needed else None
    return [_keepsake(t, s, file) for t, s in zip(tensors, sums, strict=True)]


def leave_alone(kept: Sequence[Keepsake]) -> None:
    """Note which tensors a run of a big model has not changed."""
    if not _ample(k.tensor for k in kept):
        for one in kept:
            LEFT_ALONE[one.tensor] = True


def _ample(tensors: Iterable[Tensor]) -> bool:
    """Whether they are copied every time."""
    return _bytes(tensors) <= min(AMPLE, EVERY * allowed())


def _bytes(tensors: Iterable[Tensor]) -> int:
    return sum(t.numel() * t.itemsize for t in tensors)


def _keepsake(t: Tensor, summed: tuple[int, ...] | None, file: Spill | None) -> Keepsake:
    values, alias = None, t.detach()
    if summed is None and not t.is_meta:
        values = alias.clone() if file is None or not spills(t) else file.put(t)
    grad = t.grad if t.is_leaf else None
    hooks = None if t._backward_hooks is None else dict(t._backward_hooks)
    return Keepsake(t, alias, values, summed, t.is_leaf, t.requires_grad, grad, hooks)


def checksum(t: Tensor) -> tuple[int, ...] | None:
    """Sums of the words of a tensor, by rows and by columns, each with a weight of its own.

    None where its memory is not one piece.
    """
    if t.layout != torch.strided or not t.is_contiguous() or t.itemsize not in INTEGERS:
        return None
    words = t.reshape(-1).view(INTEGERS[t.itemsize])
    own = 8 // t.itemsize  # words of a tensor's own in one of 64 bits, which are added up fastest
    whole = len(words) // (ROW * own) * (ROW * own)
    if words.storage_offset() % own or words.data_ptr() % 8:
        whole = 0
    table, rest = words[:whole].view(torch.int64).view(-1, ROW), words[whole:]
    rows, columns = [], table.new_zeros(ROW)
    for part in table.split(TOGETHER):  # is read once, and added up twice while it is near
        rows.append(part.sum(1))
        columns += part.sum(0)
    sums = (torch.cat(rows) if rows else table[:, 0], columns, rest)
    return tuple(map(_weighed, sums))


def _weighed(words: Tensor) -> int:
    """Sum of the words, each with a weight of its own, modulo 2^64."""
    parts = words.split(ROW * TOGETHER)  # words that lie askew are all here, and may be many
    starts = range(0, len(words), ROW * TOGETHER)
    found = words.new_zeros((), dtype=torch.int64)
    for start, part in zip(starts, parts, strict=False):
        found += (part.long() * _weights(start, len(part), part.device)).sum()
    return int(found)


def _weights(start: int, n: int, device: torch.device) -> Tensor:
    """Odd numbers that follow no simple rule, so that no exchange of words keeps a sum."""
    k = torch.arange(start + 1, start + n + 1, device=device, dtype=torch.int64)
    return (k * 0x5851F42D4C957F2D + (k * k) * 0x14057B7EF767814F) | 1


def _same_place(t: Tensor, alias: Tensor) -> bool:
    if t.layout != alias.layout or t.layout != torch.strided:
        return t.layout == alias.layout
    try:
        at = t.data_ptr() == alias.data_ptr()
    except RuntimeError:  # tensors that stand for others have no memory of their own
        return True
    return at and t.dtype == alias.dtype and t.shape == alias.shape and t.stride() == alias.stride()


def _equal(a: Tensor, b: Tensor) -> bool:
    """Whether two tensors hold the same bits."""
    if a.layout != torch.strided:
        return _equal_parts(a, b)
    kind = INTEGERS.get(a.itemsize)
    if kind is None or a.is_quantized:  # complex numbers of 16 bytes; codes
        a, b = (torch.view_as_real(t.resolve_conj()) if t.is_complex() else t for t in (a, b))
        return torch.equal(a, b)
    try:
        return torch.equal(a.view(kind), b.view(kind))
    except (RuntimeError, NotImplementedError):  # subclasses that have no bits to look at
        return torch.equal(a, b)


def _equal_parts(a: Tensor, b: Tensor) -> bool:
    """The same of sparse tensors; of other layouts nothing is known to change them in place."""
    if a.layout == torch.sparse_coo:
        same = a._nnz() == b._nnz() and torch.equal(a._indices(), b._indices())
        return same and torch.equal(a._values(), b._values())
    if a.layout in (torch.sparse_csr, torch.sparse_csc, torch.sparse_bsr, torch.sparse_bsc):
        return torch.equal(a.values(), b.values())
    return True
