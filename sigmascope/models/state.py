"""Running a model so that nothing of it, nor of the process, is changed."""

import copy
import gc
import io
import logging
import os
import random
import shutil
import socket
import sys
import tempfile
import threading
import warnings
import weakref
from array import array
from collections import OrderedDict, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, nullcontext, suppress
from contextvars import ContextVar
from dataclasses import dataclass
from functools import partial
from operator import is_, setitem
from types import (
    BuiltinFunctionType,
    CellType,
    FunctionType,
    GeneratorType,
    MethodType,
    ModuleType,
    SimpleNamespace,
)
from typing import IO, TYPE_CHECKING, Any, TypeGuard

import numpy as np
import torch
from torch import Tensor, nn
from torch._tensor_str import PRINT_OPTS
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.nn.modules import module as hooks_of_all
from torch.nn.modules.batchnorm import _BatchNorm
from torch.utils.hooks import RemovableHandle
from torch.utils.weak import WeakIdKeyDictionary

from sigmascope.core.guard import (
    CTRL_C,
    Refusal,
    allowed,
    door,
    on_cpu,
    random_states,
    size_words,
    unbroken,
)
from sigmascope.linalg import dense
from sigmascope.models.samples import ATOMS, RUNS

if TYPE_CHECKING:
    from torch.distributed.tensor import DTensor


# ------------------------------------------------------------------------------
# Copies of tensors in a temporary file, where memory has no room for them.
#
# The file has no name, so that nothing is left of it whatever ends the process. It is written and
# read by pieces: no more than one of them is in memory.


LARGE = 2**20  # bytes of a tensor that is worth a place in a file
PIECE = 2**22  # bytes that are written or read at once


def spills(t: Tensor) -> bool:
    """Whether a tensor's copy may lie in a file: plain numbers, many, in one piece of memory."""
    plain = type(t) in (Tensor, nn.Parameter) and t.layout == torch.strided
    if not plain or t.device.type != "cpu" or t.is_quantized or t.is_complex():
        return False
    return t.numel() * t.itemsize >= LARGE and dense.as_it_lies(t).is_contiguous()


@dataclass(frozen=True, slots=True)
class Spilled:
    """A copy of one tensor.

    Attributes:
        file: Where it lies.
        start: Its first byte there.
    """

    file: "Spill"
    start: int

    def holds(self, t: Tensor) -> bool:
        """Whether a tensor of the same shape and strides has the same bits."""
        return all(torch.equal(own, kept) for own, kept in self._both(t))

    def restore(self, t: Tensor) -> None:
        """Put the copy back into the tensor."""
        for own, kept in self._both(t):
            own.copy_(kept)

    def _both(self, t: Tensor) -> Iterator[tuple[Tensor, Tensor]]:
        file = self.file.file
        file.seek(self.start)
        for own in _pieces(t):
            read = bytearray(own.numel() * own.itemsize)
            if file.readinto(read) != len(read):  # pyright: ignore[reportAttributeAccessIssue]
                raise OSError("A temporary file ended early: somebody has cut it.")
            yield own, torch.frombuffer(read, dtype=own.dtype)


class Spill:
    """A file for the copies of some tensors; it goes when the last of these does.

    Attributes:
        file: Itself.

    Args:
        needed: Bytes of them all.
        share: Of the memory allowed that copies may take; named in the refusal.

    Raises:
        Refusal: If there is no room for it on disk, with what is needed there or in memory.
    """

    def __init__(self, needed: int, share: float) -> None:
        self._needed, self._share, self._end = needed, share, 0
        try:
            free = shutil.disk_usage(tempfile.gettempdir()).free
            if needed > free:
                raise self._no_room(f"{size_words(free)} are free")
            self.file: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115 (open while it is used)
        except OSError as error:
            raise self._no_room(str(error)) from error
        weakref.finalize(self, self.file.close)

    def put(self, t: Tensor) -> Spilled:
        """Write a tensor that `spills`.

        Raises:
            Refusal: If the disk is full meanwhile.
        """
        start = self._end
        try:
            self.file.seek(start)
            for piece in _pieces(t):
                self.file.write(piece.numpy().data)
            self.file.flush()
        except OSError as error:
            raise self._no_room(str(error)) from error
        self._end += t.numel() * t.itemsize
        return Spilled(self, start)

    def _no_room(self, got: str) -> Refusal:
        return Refusal(
            f"The first run of a model needs a copy of its weights, {size_words(self._needed)}, "
            f"which {size_words(allowed())} of memory have no room for, and neither has the folder "
            f"of temporary files, got: {got}. Allow {size_words(int(self._needed / self._share))} "
            "of memory by `memory=` (`--memory`), or name a folder with more room: "
            "`TMPDIR=/path` in the environment."
        )


def _pieces(t: Tensor) -> tuple[Tensor, ...]:
    """Its bits, piece by piece, as they lie in memory."""
    flat = dense.as_it_lies(t.detach()).view(-1)
    words = flat.view({1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}[t.itemsize])
    return words.split(PIECE // t.itemsize)


# ------------------------------------------------------------------------------
# What tensors hold, kept while a model runs and put back where it was changed.
#
# How a change is noticed: neither the version counter of a tensor nor its address tells of every
# one (`weight.data.clamp_()`, NumPy views and fused kernels count no version), so values are
# compared, and for that they are copied. Up to `AMPLE` bytes of a model that is all, or fewer where
# little memory is allowed. Of what is beyond, whole copies are kept for its first run, in a file
# where they would take more than `COPIES` of the memory allowed; of what that run has left alone, a
# checksum is kept from then on, and a change that it finds, which cannot be undone, is an error.


AMPLE = 2**29  # bytes of a model's tensors that are copied every time
SMALL = 2**14  # bytes of one that is copied in every run of any model: all else takes longer
EVERY = 0.125  # of the memory allowed, for such copies
COPIES = 0.5  # of it, for those of a first run, beside which layers write 0.4 of it
ROW = 4096  # words that a checksum adds up at once
TOGETHER = 64  # rows of them that are added up while the cache holds them
LONG = 2**15  # numbers from which on it is worth it to compare them by eight bytes
INTEGERS = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}
LEFT_ALONE: Any = WeakIdKeyDictionary()  # tensors of big models, with the runs that left them so
# while a door is open: tensors as a run has left them, each with its version then
UNCHANGED: ContextVar[Any] = ContextVar("tensors as a run has left them", default=None)


@contextmanager
def one_door() -> Iterator[None]:
    """From one run of a model to the next no code but this package's changes weights.

    What that changes tells by its version or its address, so that a copy or a checksum holds until
    the next run. Training between two doors may not: `weight.data.add_()` counts no version.
    """
    token = UNCHANGED.set(WeakIdKeyDictionary())
    try:
        yield
    finally:
        UNCHANGED.reset(token)


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

    @property
    def outlasts(self) -> bool:
        """Whether its copy is worth being held until the next run."""
        return (
            isinstance(self.values, Tensor) and self.values.numel() * self.values.itemsize > SMALL
        )

    def give_back(self) -> bool:
        """Put everything back; whether values had changed."""
        t, alias = self.tensor, self.alias
        if self.leaf and not t.is_leaf:
            t.detach_()
        if not _same_place(t, alias):
            t.data = alias
        if isinstance(self.values, Spilled):
            changed = not self.values.holds(self.alias)
        elif self.values is not None:
            changed = not _equal(self.alias, self.values)
        else:
            changed = self.checksum is not None and checksum(self.alias) != self.checksum
        if changed:
            if self.values is None:
                raise Refusal(
                    "The model must leave its weights as they are, or change them in every run, "
                    f"got a tensor of shape {tuple(self.alias.shape)} that a later run has "
                    "changed in place: it was too large to be copied every time, and is changed "
                    "now. Load the model anew."
                )
            with torch.inference_mode(self.alias.is_inference()), torch.no_grad():
                if isinstance(self.values, Spilled):
                    self.values.restore(self.alias)
                else:
                    self.alias.copy_(self.values)
        if self.leaf:
            if t.requires_grad != self.wants:
                t.requires_grad_(self.wants)
            if t.grad is not self.grad:
                t.grad = self.grad
        if self.wants and (self.hooks or t._backward_hooks):
            now = self.tensor._backward_hooks
            if (now or {}) != (self.hooks or {}):
                self.tensor._backward_hooks = None if self.hooks is None else now
                if now is not None and self.hooks is not None:
                    now.clear()
                    now.update(self.hooks)
        return changed


def keepsakes(tensors: Sequence[Tensor], fluid: frozenset[int]) -> list[Keepsake]:
    """Everything about some tensors.

    Args:
        tensors: Each once.
        fluid: Ids of buffers, which forward passes are free to change: always copied.

    Raises:
        Refusal: If copies have room neither in memory nor on disk.
    """
    ample = _ample(t for t in tensors if id(t) not in fluid)
    small = frozenset(id(t) for t in tensors if t.numel() * t.itemsize <= SMALL)
    small = small if len(small) * SMALL <= AMPLE else frozenset[int]()
    copied_always = fluid | small
    known = [
        not (ample or id(t) in copied_always or t.is_meta) and t in LEFT_ALONE for t in tensors
    ]
    before = [_still_so(t) for t in tensors]
    sums: list[Any] = []
    for t, is_known, b in zip(tensors, known, before, strict=True):
        summed = None if b is None else b.checksum
        sums.append((summed or checksum(t.detach())) if is_known else None)
    copied = [t for t, s in zip(tensors, sums, strict=True) if s is None and not t.is_meta]
    needed = _bytes(copied)
    file = None
    if needed > COPIES * allowed():
        needed = _bytes(t for t in copied if spills(t))
        file = Spill(needed, COPIES) if needed else None
    kept: list[Keepsake] = []
    for t, s, b in zip(tensors, sums, before, strict=True):
        values, alias = None, t.detach()
        if s is None and b is not None and b.values is not None:
            values = b.values
        elif s is None and not t.is_meta:
            values = alias.clone() if file is None or not spills(t) else file.put(t)
        grad = t.grad if t.is_leaf else None
        hooks = None if t._backward_hooks is None else dict(t._backward_hooks)
        kept.append(Keepsake(t, alias, values, s, t.is_leaf, t.requires_grad, grad, hooks))
    return kept


def _still_so(t: Tensor) -> Keepsake | None:
    """What the last run of this door has left unchanged, if nothing has been changed since."""
    version, before = (UNCHANGED.get() or {}).get(t, (None, None))
    # its memory is held there, so that no other tensor can have come to lie in the same place
    holds = before is not None and version == t._version and _same_place(t, before.alias)
    return before if holds else None


def _ample(tensors: Iterable[Tensor]) -> bool:
    """Whether they are copied every time."""
    return _bytes(tensors) <= min(AMPLE, EVERY * allowed())


def _bytes(tensors: Iterable[Tensor]) -> int:
    return sum(t.numel() * t.itemsize for t in tensors)


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
    # what lies askew cannot be seen as longer words, not even none of it
    table = words[:whole].view(torch.int64) if whole else words.new_empty(0, dtype=torch.int64)
    table, rest = table.view(-1, ROW), words[whole:]
    rows, columns = [], table.new_zeros(ROW)
    for part in table.split(TOGETHER):  # is read once, and added up twice while it is near
        rows.append(part.sum(1))
        columns += part.sum(0)
    found = []
    for sums in (torch.cat(rows) if rows else table[:, 0], columns, rest):
        parts = sums.split(ROW * TOGETHER)  # words that lie askew are all here, and may be many
        starts = range(0, len(sums), ROW * TOGETHER)
        total = sums.new_zeros((), dtype=torch.int64)  # modulo 2^64
        for start, part in zip(starts, parts, strict=False):
            # odd numbers that follow no simple rule, so that no exchange of words keeps a sum
            k = torch.arange(
                start + 1, start + len(part) + 1, device=part.device, dtype=torch.int64
            )
            odd = (k * 0x5851F42D4C957F2D + (k * k) * 0x14057B7EF767814F) | 1
            total += (part.long() * odd).sum()
        found.append(int(total))
    return tuple(found)


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
        # the same of sparse tensors; of other layouts nothing is known to change them in place
        if a.layout == torch.sparse_coo:
            same = a._nnz() == b._nnz() and torch.equal(a._indices(), b._indices())
            return same and torch.equal(a._values(), b._values())
        if a.layout in (torch.sparse_csr, torch.sparse_csc, torch.sparse_bsr, torch.sparse_bsc):
            return torch.equal(a.values(), b.values())
        return True
    if a.numel() > LONG and not a.is_quantized:
        # lengths that are odd, memory that lies askew and subclasses are compared below
        with suppress(RuntimeError, NotImplementedError, TypeError):
            x, y = (t.view(-1).view(torch.int64) for t in (a, b))
            # NumPy takes half the time of torch for it
            return np.array_equal(x.numpy(), y.numpy()) if a.is_cpu else torch.equal(x, y)
    kind = INTEGERS.get(a.itemsize)
    if kind is None or a.is_quantized:  # complex numbers of 16 bytes; codes
        a, b = (torch.view_as_real(t.resolve_conj()) if t.is_complex() else t for t in (a, b))
        return torch.equal(a, b)
    try:
        return torch.equal(a.view(kind), b.view(kind))
    except (RuntimeError, NotImplementedError):  # subclasses that have no bits to look at
        return torch.equal(a, b)


# ------------------------------------------------------------------------------
# What a forward pass can reach from a model and change, and how it is put back.
#
# Found by walking: modules, what hangs on them (numbers, tensors, containers, plain objects,
# sources of random numbers) and the attributes of their classes. What a function keeps in its
# closure, or a file in its globals, is out of reach.


# objects of these packages hold no numbers of a model's own, and may lead far away from it
FOREIGN = frozenset(
    (
        *("torch", "builtins", "types", "typing", "abc", "enum", "functools", "weakref"),
        *("threading", "_thread", "queue", "multiprocessing", "concurrent", "asyncio", "io"),
        *("_io", "logging", "socket", "ctypes", "mmap", "pathlib", "jaxtyping", "sigmascope"),
    )
)
CONTAINERS = frozenset((dict, OrderedDict, set))
HOOKS = frozenset(k for k, v in vars(nn.Module()).items() if "hooks" in k and v == {})
Undo = Callable[[], None]


class Reach:
    """Everything found from a module, or from any object, with its contents as they are now.

    Attributes:
        tensors: Every tensor, each once.
        modules: Every module, each once, also those that plain containers hide.
    """

    def __init__(self, thing: Any) -> None:
        self.tensors: list[Tensor] = []
        self.modules: list[nn.Module] = []
        self._dicts: list[tuple[dict[Any, Any], dict[Any, Any]]] = []
        self._empty: list[Any] = []
        self.undo: list[Undo] = []
        self._seen: set[int] = set()
        self._left: list[Any] = [thing]
        while self._left:
            one = self._left.pop()
            if id(one) in self._seen:
                continue
            self._seen.add(id(one))
            if isinstance(one, Tensor):
                self.tensors.append(one)
                own: Any = one.__dict__
                self._mapping(own) if own else self._empty.append(own)
                if one.is_leaf and one.grad is not None:
                    self._left.append(one.grad)
            elif isinstance(one, nn.Module):
                self._module(one)
            elif isinstance(one, dict):
                self._mapping(one)
            elif isinstance(one, tuple | frozenset):
                self._push(one)
            elif isinstance(one, list | set | deque | bytearray):
                content: Any = one.copy()
                self.undo.append(partial(_restore_sequence, one, content))
                self._push(() if isinstance(one, bytearray) else content)
            elif isinstance(one, SimpleNamespace):
                self._mapping(vars(one))
            elif (undo := _state_of(one)) is not None:
                self.undo.append(undo)
            elif not isinstance(one, type) and (  # whose objects may keep a model's numbers
                type(one).__module__.partition(".")[0] not in FOREIGN
                or issubclass(type(one), torch.optim.Optimizer | threading.local)
            ):
                if isinstance(found := getattr(one, "__dict__", None), dict):
                    self._left.append(found)
                slots = {k: getattr(one, k) for k in _slots(type(one)) if hasattr(one, k)}
                if slots:
                    self.undo.append(partial(_restore_slots, one, slots))
                    self._push(slots.values())

    def give_back(self) -> None:
        """Put back contents, attributes and states; what tensors hold is kept elsewhere."""
        for found in self._empty:
            if found:
                found.clear()
        for found, content in self._dicts:
            # the same keys, in the same order, with the same objects
            if not (
                len(found) == len(content)
                and all(map(is_, found.values(), content.values()))
                and all(map(is_, found, content))
            ):
                found.clear()
                found.update(content)
        for undo in self.undo:
            undo()

    def _push(self, parts: Iterable[Any]) -> None:
        self._left += [part for part in parts if type(part) not in ATOMS]

    def _mapping(self, found: dict[Any, Any]) -> None:
        if not found:
            self._empty.append(found)
            return
        content = dict(found)
        self._dicts.append((found, content))
        self._left += [v for v in content.values() if type(v) not in ATOMS]

    def _module(self, module: nn.Module) -> None:
        self.modules.append(module)
        content = dict(module.__dict__)
        self._dicts.append((module.__dict__, content))
        for name, value in content.items():
            kind = type(value)
            if kind in CONTAINERS and not value:  # most are, and need no visit
                self._empty.append(value)
            elif name in HOOKS:  # put back, but not entered: what hooks record is their owner's
                self._dicts.append((value, {**value}))
            elif kind not in ATOMS:
                self._left.append(value)
        kind = type(module)
        if id(kind) not in self._seen:
            for base in kind.__mro__:
                if id(base) not in self._seen and base.__module__.partition(".")[0] not in FOREIGN:
                    own = {k: v for k, v in vars(base).items() if not k.startswith("__")}
                    self.undo.append(partial(_restore_class, base, own))
                    plain = (Tensor, list, dict, set, deque)
                    self._push(v for v in own.values() if isinstance(v, plain))
                self._seen.add(id(base))


def contents(one: Any) -> Iterator[tuple[str, Any]]:
    """What something holds, by name, as `copy.deepcopy` goes through it; functions too."""
    if isinstance(one, dict):
        yield from ((str(key), value) for key, value in one.items())
    elif isinstance(one, list | tuple | set | frozenset | deque):
        yield from ((str(place), value) for place, value in enumerate(one))
    elif isinstance(one, nn.Module):
        inner = {k for k, v in vars(one).items() if k in ("_parameters", "_buffers", "_modules")}
        for key, value in vars(one).items():
            yield from contents(value) if key in inner else ((key, value),)
    elif isinstance(one, MethodType):
        yield from (("__self__", one.__self__), ("__func__", one.__func__))
    elif isinstance(one, partial):
        yield from (("func", one.func), ("args", one.args), ("keywords", one.keywords))
    elif isinstance(one, FunctionType):
        held = [v for c in one.__closure__ or () if (v := _content(c)) is not c]
        yield from (("(closure)", v) for v in held if not isinstance(v, type | ModuleType))
    elif not isinstance(one, type | ModuleType | Tensor | np.ndarray | BuiltinFunctionType):
        found = getattr(one, "__dict__", None)
        if isinstance(found, dict):
            yield from ((str(key), value) for key, value in found.items())
        yield from ((k, getattr(one, k)) for k in _slots(type(one)) if hasattr(one, k))


def _slots(kind: type) -> tuple[str, ...]:
    slots = (s for base in kind.__mro__ for s in (getattr(base, "__slots__", None) or ()))
    return tuple(s for s in slots if isinstance(s, str) and s not in ("__dict__", "__weakref__"))


def _state_of(one: Any) -> Undo | None:
    """How the state of an array or a source of random numbers is put back; None of all else."""
    if isinstance(one, array):
        kept = one[:]
        return lambda: None if one == kept else setitem(one, slice(None), kept)
    if isinstance(one, np.ndarray):
        values = one.copy()
        return lambda: None if one.tobytes() == values.tobytes() else np.copyto(one, values)
    if isinstance(one, torch.Generator):
        state = one.get_state()

        def go_on() -> None:
            if not torch.equal(one.get_state(), state):
                one.set_state(state)

        return go_on
    if isinstance(one, np.random.Generator):
        bits, inner = one.bit_generator, one.bit_generator.state
        return lambda: setattr(bits, "state", inner)
    if isinstance(one, random.Random):
        return partial(one.setstate, one.getstate())
    if isinstance(one, np.random.RandomState):
        return partial(one.set_state, one.get_state())
    return None


def _restore_sequence(found: Any, content: Any) -> None:
    if len(found) == len(content) and all(map(is_, found, content)):
        return
    found.clear()
    found.update(content) if isinstance(found, set) else found.extend(content)


def _restore_slots(one: Any, slots: Mapping[str, Any]) -> None:
    for name, value in slots.items():
        if getattr(one, name, None) is not value:
            object.__setattr__(one, name, value)


def _restore_class(kind: type, content: Mapping[str, Any]) -> None:
    now = vars(kind)
    for name in [k for k in now if k not in content and not k.startswith("__")]:
        delattr(kind, name)
    for name, value in content.items():
        if now.get(name) is not value:
            setattr(kind, name, value)


# ------------------------------------------------------------------------------
# Whatever something reaches, put back to what it was.


@contextmanager
@unbroken
def as_found(thing: Any, *, weights: bool = True) -> Iterator[None]:
    """Leave everything that something reaches as it was, also after an error or Ctrl-C.

    Unlike `still` it changes no mode meanwhile, and no setting of the process is put back.

    Args:
        thing: A module, any object that may keep numbers (a loss, say), or what was found from one.
        weights: Whether parameters and gradients get their values back too.
    """
    with CTRL_C:
        reach = thing if isinstance(thing, Reach) else Reach(thing)
        own = [p for m in reach.modules for p in m._parameters.values() if p is not None]
        steady = {id(t) for p in own for t in (p, p.grad if p.is_leaf else None)}
        fluid = frozenset(id(t) for t in reach.tensors if id(t) not in steady)
        kept = keepsakes([t for t in reach.tensors if weights or id(t) in fluid], fluid)
        runs = RUNS.count
        try:
            yield
        finally:
            alone: list[Keepsake] = []
            ran = RUNS.count > runs
            every([reach.give_back, *(partial(_note, one, alone) for one in kept)])
            ample, held = _ample(k.tensor for k in alone), UNCHANGED.get()
            for one in alone:
                if ran and not ample:  # a run of a big model changed none
                    LEFT_ALONE[one.tensor] = True
                lasts = one.checksum or (ample and one.outlasts)
                if held is not None and lasts and not one.tensor.is_inference():  # counts nothing
                    held[one.tensor] = one.tensor._version, one


def every(undos: Sequence[Undo]) -> None:
    """All of them, also if one fails; the first failure is raised at the end."""
    failed: list[Exception] = []
    for undo in undos:
        try:
            undo()
        except Exception as error:  # noqa: BLE001 (raised below, once all the rest is back)
            failed.append(error)
    if failed:
        raise failed[0]


def _note(one: Keepsake, alone: list[Keepsake]) -> None:
    if not one.give_back():
        alone.append(one)


def _folder() -> str | None:
    """The working directory; None where it was removed."""
    try:
        return os.getcwd()  # noqa: PTH109 (a text is compared)
    except OSError:
        return None


# names and values as the system has them: to decode each takes longer than all other settings
ENVIRONMENT = vars(os.environ)["_data"]


def _set_environment(to: Mapping[Any, Any]) -> None:
    decode = os.environ.decodekey, os.environ.decodevalue
    for name in ENVIRONMENT.keys() - to.keys():
        del os.environ[decode[0](name)]
    os.environ.update({decode[0](name): decode[1](value) for name, value in to.items()})


LISTS = (
    (sys, "path"),
    (sys, "argv"),
    (sys, "meta_path"),
    (sys, "path_hooks"),
    (warnings, "filters"),
)
_CUDA, _CUDNN = torch.backends.cuda, torch.backends.cudnn
ATTRIBUTES = (
    *((_CUDNN, name) for name in ("enabled", "benchmark", "deterministic", "allow_tf32")),
    (_CUDA.matmul, "allow_tf32"),
    (_CUDA.matmul, "allow_fp16_reduced_precision_reduction"),
    (torch.backends.mkldnn, "enabled"),
)
OF_PYTHON: tuple[tuple[Any, str], ...] = (
    *((sys, name) for name in ("excepthook", "displayhook", "unraisablehook")),
    *((sys, name) for name in ("stdin", "stdout", "stderr", "path", "argv", "dont_write_bytecode")),
    (threading, "excepthook"),
    (warnings, "filters"),
    (warnings, "showwarning"),
)
PAIRS: tuple[tuple[Callable[[], Any], Callable[[Any], Any]], ...] = (
    (torch.backends.mha.get_fastpath_enabled, torch.backends.mha.set_fastpath_enabled),
    (torch.is_grad_enabled, torch.set_grad_enabled),
    (torch.get_default_dtype, torch.set_default_dtype),
    (torch.get_float32_matmul_precision, torch.set_float32_matmul_precision),
    (torch.get_num_threads, torch.set_num_threads),
    (torch.is_anomaly_enabled, torch.set_anomaly_enabled),
    (_CUDA.flash_sdp_enabled, _CUDA.enable_flash_sdp),
    (_CUDA.mem_efficient_sdp_enabled, _CUDA.enable_mem_efficient_sdp),
    (_CUDA.math_sdp_enabled, _CUDA.enable_math_sdp),
    (_CUDA.cudnn_sdp_enabled, _CUDA.enable_cudnn_sdp),
    (torch._C._get_cudnn_enabled, torch._C._set_cudnn_enabled),
    (torch.is_autocast_cache_enabled, torch.set_autocast_cache_enabled),
    (lambda: torch.is_autocast_enabled("cpu"), lambda on: torch.set_autocast_enabled("cpu", on)),
    (lambda: torch.is_autocast_enabled("cuda"), lambda on: torch.set_autocast_enabled("cuda", on)),
    (lambda: torch.get_autocast_dtype("cpu"), lambda d: torch.set_autocast_dtype("cpu", d)),
    (lambda: torch.get_autocast_dtype("cuda"), lambda d: torch.set_autocast_dtype("cuda", d)),
    (
        lambda: (
            torch.are_deterministic_algorithms_enabled(),
            torch.is_deterministic_algorithms_warn_only_enabled(),
        ),
        lambda to: torch.use_deterministic_algorithms(to[0], warn_only=to[1]),
    ),
    (np.geterr, lambda to: np.seterr(**to)),
    (np.get_printoptions, lambda to: np.set_printoptions(**to)),
    (lambda: dict(vars(PRINT_OPTS)), lambda to: vars(PRINT_OPTS).update(to)),
    (_folder, lambda to: None if to is None else os.chdir(to)),
    (ENVIRONMENT.copy, _set_environment),
    (sys.getrecursionlimit, sys.setrecursionlimit),
    (gc.isenabled, lambda on: gc.enable() if on else gc.disable()),
    (gc.get_threshold, lambda to: gc.set_threshold(*to)),
    (logging.root.getEffectiveLevel, logging.root.setLevel),
    *(
        (lambda at=at: [*getattr(*at)], lambda to, at=at: setitem(getattr(*at), slice(None), to))
        for at in LISTS
    ),
)
GLOBAL_HOOKS = tuple(
    v for k, v in vars(hooks_of_all).items() if k.startswith("_global_") and isinstance(v, dict)
)


def settings() -> list[Undo]:
    """How every setting is put back to what it is now."""
    # torch.get_default_device would not tell a default from a device that was set
    device = lambda: getattr(torch._GLOBAL_DEVICE_CONTEXT, "device_context", None)
    before = device()
    to = None if before is None else before.device
    return [
        *(_attribute(place, name) for place, name in OF_PYTHON),  # lists, before what is in them
        *(_pair(get, put) for get, put in PAIRS),
        *(_attribute(place, name) for place, name in ATTRIBUTES),
        *(_hooks(found) for found in GLOBAL_HOOKS),
        lambda: None if device() is before else torch.set_default_device(to),
    ]


def _pair(get: Callable[[], Any], put: Callable[[Any], Any]) -> Undo:
    before = get()
    return lambda: None if get() == before else put(before)


def _attribute(place: Any, name: str) -> Undo:
    before = getattr(place, name)
    return lambda: None if getattr(place, name) is before else setattr(place, name, before)


def _hooks(found: dict[Any, Any]) -> Undo:
    before = dict(found)

    def refill() -> None:
        if found.keys() != before.keys():
            found.clear()
            found.update(before)

    return refill


# what is held still belongs to all threads of the process: modes, hooks, random states, flags
ALONE = threading.RLock()


def uses_batch_statistics(module: nn.Module) -> bool:
    """Whether a normaliser mixes the samples of a batch: in training mode, or without a memory."""
    with ALONE:  # not while another thread holds it still
        return isinstance(module, _BatchNorm) and (module.training or module.running_mean is None)


def unwrapped(model: nn.Module) -> nn.Module:
    """The user's own module, inside of what `torch.compile` and data parallelism put around it."""
    *_, inner = within(model)
    return inner


def within(model: nn.Module) -> Iterator[nn.Module]:
    """A model and what its wrappers hold, the user's own module last."""
    yield model
    if isinstance(model, nn.parallel.DistributedDataParallel | nn.DataParallel):
        yield from within(model.module)
    elif isinstance(model, nn.Module):  # whose `__getattr__` may answer to any name
        held = vars(model).get("_modules")  # of a scripted one no mapping
        inner = held.get("_orig_mod") if isinstance(held, Mapping) else None  # of `torch.compile`
        if isinstance(inner, nn.Module):
            yield from within(inner)


def is_compiled(module: nn.Module) -> bool:
    """Whether it was handed to `torch.compile`, or is what that has made."""
    has = vars(module).get("_compiled_call_impl")  # neither has a public name
    return has is not None or "_orig_mod" in vars(module).get("_modules", {})


def is_untouched(module: _BatchNorm) -> bool:
    """Whether running statistics are those that a normaliser was built with."""
    mean, variance = module.running_mean, module.running_var
    if mean is None or variance is None:
        return False
    return not bool(mean.any()) and bool((variance == 1).all())


@contextmanager
@unbroken
def apart() -> Iterator[None]:
    """Leave random states and settings of the process as they are; one thread at a time.

    What this package makes inside of the block is made on the CPU, whatever `set_default_device`
    says; what the model makes is not touched.
    """
    with CTRL_C, ALONE, ExitStack() as undo:
        undo.callback(every, settings())
        undo.enter_context(random_states())
        undo.enter_context(on_cpu())
        yield


@contextmanager
@unbroken
def still(model: nn.Module, *, weights: bool = True) -> Iterator[None]:
    """Hold a model still: no dropout, no drift, no trace in any state that it can reach.

    Inside the block every module is in evaluation mode, except batch normalisers found in training
    mode, which go on using the statistics of the batch. Afterwards everything a forward pass can
    reach is as it was, bit for bit and also after an error or Ctrl-C: modules, their modes, hooks
    and attributes, what those hold (see `Reach`), parameters and buffers with what is in
    them (`Keepsake`) and their gradients, random states of torch, NumPy and Python, and
    settings of the process (`settings`). Measurements in several threads take turns here.

    Args:
        model: The model.
        weights: Whether parameters and gradients get their values back too; not where the block is
            there to change those of a copy.
    """
    with apart(), ExitStack() as undo:
        reach, modules = Reach(model), [*model.modules()]
        undo.enter_context(as_found(reach, weights=weights))
        # the fused encoder layer never calls its submodules, so nothing could be observed
        torch.backends.mha.set_fastpath_enabled(False)
        if any(isinstance(module, nn.RNNBase) for module in modules):
            # cuDNN derives by recurrent layers in training mode alone, and once
            torch._C._set_cudnn_enabled(False)
        for module in modules:
            if module.training and not isinstance(module, _BatchNorm):
                module.training = False
        for module in reach.modules:
            if module._compiled_call_impl is not None:
                # hooks added after the first call of a compiled module never fire (torch 2.13)
                module._compiled_call_impl = None
        yield


@contextmanager
@unbroken
def alive(model: nn.Module, *, fused: bool = False) -> Iterator[None]:
    """As `still`, but in the model's own modes: dropout draws, and is forgotten afterwards.

    What torch draws inside is the same every time, whatever the process has drawn before: numbers
    of one model would be others at each look.

    Args:
        model: The model.
        fused: Whether attention may take a fused kernel. Those cannot be followed, and need no
            memory for the scores of all pairs.
    """
    modes = [(m, m.training) for m in model.modules()]
    attention = nullcontext() if fused else sdpa_kernel(SDPBackend.MATH)
    with still(model), random_states(0), attention, torch.enable_grad():
        for module, mode in modes:
            module.training = mode
        yield


# ------------------------------------------------------------------------------
# Copies of models, the one way they are made.


LOCKS = {type(threading.Lock()): threading.Lock, type(threading.RLock()): threading.RLock}
# a function that holds one of these works on the model itself, or on its owner's records
HELD = (nn.Module, Tensor, list, dict, set, RemovableHandle)
# what stands for something outside of the process, or runs: a copy goes on with the same one
SHARED = (io.IOBase, socket.socket, ModuleType, GeneratorType, threading.Thread)


@door
def duplicate(model: nn.Module) -> nn.Module:
    """A copy of a model that shares no tensor with it.

    What Python cannot copy is seen to: locks are new ones, sources of random numbers go on from the
    same state, weights that a hook computes are copied as they are, open files and threads are
    shared; functions that hold modules of the model hold those of the copy.

    Raises:
        Refusal: If something else cannot be copied, with the name of what holds it.
    """
    with ALONE:  # not while another thread holds it still
        memo: dict[int, Any] = {}
        found = [*reached(model)]
        memo[id(memo)] = [one for _, one in found]  # alive, so that no id is used again
        functions = [one for _, one in found if isinstance(one, FunctionType)]
        for _, one in found:
            if (twin := _twin(one)) is not None:
                memo[id(one)] = twin
        try:
            _bind_again(functions, memo)
            twin = copy.deepcopy(model, memo)
            _mark_again(model, memo)
        except Exception as error:  # a class may refuse to be copied in any way
            raise Refusal(_explained(found, memo, error)) from error
        theirs = {id(m) for m in model.modules()} | {id(t) for t in _held(model)}
        shared = next((m for m in twin.modules() if id(m) in theirs), None)
        if shared is not None or any(id(t) in theirs for t in _held(twin)):
            raise Refusal(
                f"The model must be one that can be copied, got {type(shared or twin).__name__}, "
                "whose copy has modules or weights of the model itself. Let its `__deepcopy__` "
                "make another one, or take it out of the class."
            )
        return twin


def _mark_again(model: nn.Module, memo: dict[int, Any]) -> None:
    """What a library notes on parameters, as `mup` their widths: torch copies nothing of it."""
    for p in model.parameters():
        twin = memo.get(id(p))
        if type(p) is nn.Parameter and type(twin) is nn.Parameter:
            for key, value in vars(p).items():
                if key not in vars(twin):
                    setattr(twin, key, copy.deepcopy(value, memo))


def _held(model: nn.Module) -> Iterator[Tensor]:
    yield from model.parameters()
    yield from model.buffers()


def reached(model: nn.Module) -> Iterator[tuple[str, Any]]:
    """Everything that a copy of a model would meet, each once, with the name of the place.

    Args:
        model: Left as it is.
    """
    left: list[tuple[str, Any]] = [("", model)]
    seen: set[int] = set()
    while left:
        name, one = left.pop()
        if id(one) in seen or type(one) in ATOMS:
            continue
        seen.add(id(one))
        yield name, one
        left += [
            (f"{name}.{key}" if name else key, part)
            for key, part in contents(one)
            # the last torch leaves out
            if type(part) not in ATOMS and id(part) not in seen and key != "_compiled_call_impl"
        ]


def _twin(one: Any) -> Any:
    """What takes the place of something that cannot be copied, or not at once; None of all else."""
    if type(one) is OrderedDict:  # the hooks of a module: a dozen, and empty as a rule
        return None if one or vars(one) else OrderedDict()
    if type(one) in LOCKS:
        return LOCKS[type(one)]()
    if isinstance(one, torch.Generator):
        return one.clone_state()
    if isinstance(one, SHARED):
        return one
    if isinstance(one, threading.local):
        fresh = type(one)()
        fresh.__dict__.update(one.__dict__)
        return fresh
    if isinstance(one, nn.Parameter) and one.layout != torch.strided:
        return nn.Parameter(one.detach().clone(), requires_grad=one.requires_grad)
    if isinstance(one, Tensor) and not one.is_leaf:
        return one.detach().clone()
    return None


def _bind_again(functions: list[FunctionType], memo: dict[int, Any]) -> None:
    """Functions that hold modules, weights or records in their closure, with cells of their own."""
    made: list[tuple[FunctionType, tuple[CellType, ...]]] = []
    for one in functions:
        held = [_content(cell) for cell in one.__closure__ or ()]
        ours = one.__module__ is not None and one.__module__.startswith("sigmascope.")
        if not ours and any(isinstance(v, HELD) for v in held):
            cells = tuple(CellType() for _ in held)
            new = FunctionType(one.__code__, one.__globals__, one.__name__, one.__defaults__, cells)
            new.__kwdefaults__ = one.__kwdefaults__
            new.__dict__.update(one.__dict__)
            memo[id(one)] = new
            made.append((one, cells))
    for one, cells in made:  # once all are known, for they may hold one another
        for old, cell in zip(one.__closure__ or (), cells, strict=True):
            value = _content(old)
            if value is not old:
                cell.cell_contents = copy.deepcopy(value, memo)


def _content(cell: CellType) -> Any:
    """What a cell holds; itself if it is empty."""
    try:
        return cell.cell_contents
    except ValueError:
        return cell


def _explained(found: list[tuple[str, Any]], memo: Mapping[int, Any], error: Exception) -> str:
    """Which attribute cannot be copied: the deepest that fails by itself."""
    name, kind = "(the model)", "something"
    for where, one in found:
        if isinstance(one, nn.Module | Tensor) or id(one) in memo:
            continue
        try:
            copy.deepcopy(one, dict(memo))
        except Exception:  # noqa: BLE001 (the same failure, found by name)
            name, kind = where, type(one).__name__
    words = " ".join(str(error).split())[:200]
    return (
        f"The model must be one that can be copied, got `{name}` of {kind}, with which Python says "
        f"{type(error).__name__}: {words}. Take it out of the model, or give its class a "
        "`__deepcopy__`."
    )
