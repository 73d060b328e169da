"""Tensors as they lie in files: a kind of number, a shape, and where the bytes are."""

from abc import ABC, abstractmethod
from collections.abc import Hashable
from dataclasses import dataclass, field
from math import prod
from typing import Any, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from sigmascope.checkpoints.locations import read_range, state_of
from sigmascope.core import guard
from sigmascope.core.guard import Refusal, printable, shown

DIMENSIONS = 64  # of a tensor, as torch has
LARGEST = 1 << 62  # bytes that a tensor may declare: beyond it torch's own sizes overflow

EIGHTHS = {  # kinds of one byte, apart from those that hold two numbers in it
    kind
    for name in dir(torch)
    if isinstance(kind := getattr(torch, name), torch.dtype)
    and kind.is_floating_point
    and kind.itemsize == 1
    and not name.startswith("float4")
}
FLOATS = (torch.float64, torch.float32, torch.float16, torch.bfloat16)


def word(dtype: torch.dtype) -> str:
    """A kind of number by its name: `float32`."""
    return str(dtype).removeprefix("torch.")


class Array(ABC):
    """One tensor of a file: what the header says of it, and how to read it.

    Attributes:
        dtype: Its kind of number.
        shape: In torch's order.
    """

    __slots__ = ()
    dtype: torch.dtype
    shape: tuple[int, ...]

    @property
    def bytes(self) -> int:
        """Bytes of its numbers."""
        return prod(self.shape) * self.dtype.itemsize

    @abstractmethod
    def rows(self, start: int, stop: int) -> Tensor:
        """Rows `[start, stop)` along dimension 0, on the CPU, of its own kind of number."""

    @abstractmethod
    def key(self) -> Hashable:
        """Equal for two that read the same bytes in the same way."""

    def all(self) -> Tensor:
        """All of it, one without dimensions too."""
        return self.rows(0, self.shape[0] if self.shape else 1)


@dataclass(frozen=True, slots=True)
class InFile(Array):
    """A tensor whose numbers are a range of a file.

    Attributes:
        location: The file.
        offset: Its first byte there.
        strides: In numbers, between neighbours along each dimension; None for a contiguous one.
        state: What the file was when its header was read. A file of this machine is read no more
            once it is another: its numbers would be those of two versions.
    """

    location: str
    offset: int
    dtype: torch.dtype
    shape: tuple[int, ...]
    strides: tuple[int, ...] | None = None
    state: tuple[int, ...] = field(default=(), compare=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "state", self.state or state_of(self.location))

    @property
    def bytes(self) -> int:
        """Bytes that are read for it: of one number repeated those of one."""
        numbers = prod(self.shape) if self.strides is None else extent(self.shape, self.strides)
        return numbers * self.dtype.itemsize

    def rows(self, start: int, stop: int) -> Tensor:
        shape = (stop - start, *self.shape[1:]) if self.shape else ()
        guard.require_room(
            prod(shape) * self.dtype.itemsize, f"A tensor of `{printable(self.location)}`"
        )
        if prod(shape) == 0:
            return torch.empty(shape, dtype=self.dtype)
        size = self.dtype.itemsize
        if self.strides is None:
            row = prod(self.shape[1:]) * size
            data = self._read(self.offset + start * row, prod(shape) * size)
            return data.view(self.dtype).reshape(shape)
        first = start * self.strides[0] if self.shape else 0
        span = extent(shape, self.strides)
        guard.require_room(span * size, f"A tensor of `{printable(self.location)}`")
        data = self._read(self.offset + first * size, span * size).view(self.dtype)
        return data.as_strided(shape, self.strides).contiguous()

    def _read(self, offset: int, length: int) -> Tensor:
        data = read_range(self.location, offset, length)
        if self.state != state_of(self.location):  # afterwards: it may change while it is read
            raise Refusal(
                f"`{printable(self.location)}` changed since it was opened: its numbers would be "
                "of two versions. Wait until it is written, and begin again."
            )
        return data

    def mapped(self) -> Tensor:
        """All of it in the pages of a file of this machine: nothing is read before it is used."""
        numbers = prod(self.shape) if self.strides is None else extent(self.shape, self.strides)
        size = numbers * self.dtype.itemsize
        if size == 0 or self.offset % self.dtype.itemsize:
            return self.all()
        end = self.offset + size
        pages = torch.UntypedStorage.from_file(self.location, shared=False, nbytes=end)
        whole = torch.empty(0, dtype=self.dtype).set_(cast(Any, pages[self.offset : end]))
        return whole.as_strided(self.shape, self.strides or contiguous(self.shape))

    def key(self) -> Hashable:
        return (self.location, self.offset, word(self.dtype), self.shape, self.strides)


@dataclass(frozen=True, slots=True, eq=False)
class InMemory(Array):
    """A tensor in memory; a process that it is sent to gets its numbers along."""

    tensor: Tensor

    @property
    def dtype(self) -> torch.dtype:  # pyright: ignore[reportIncompatibleVariableOverride]
        """Of the tensor."""
        return self.tensor.dtype

    @property
    def shape(self) -> tuple[int, ...]:  # pyright: ignore[reportIncompatibleVariableOverride]
        """Of the tensor."""
        return tuple(self.tensor.shape)

    def rows(self, start: int, stop: int) -> Tensor:
        part = self.tensor.detach()
        part = part[start:stop] if part.ndim else part
        return part.to("cpu", copy=True).contiguous()

    def __reduce__(self) -> tuple[Any, ...]:
        # torch would send the whole storage of a view, and cannot bring back kinds of eight bits
        data = self.all().reshape(-1).view(torch.uint8).numpy()
        return _held, (data, word(self.dtype), self.shape)

    def key(self) -> Hashable:
        t = self.tensor
        return ("memory", str(t.device), t.data_ptr(), word(t.dtype), self.shape, t.stride())


def _held(data: NDArray[np.uint8], kind: str, shape: tuple[int, ...]) -> InMemory:
    return InMemory(torch.from_numpy(data.copy()).view(getattr(torch, kind)).reshape(shape))


def extent(shape: tuple[int, ...], strides: tuple[int, ...]) -> int:
    """Numbers from the first to the last of a strided tensor, both counted."""
    if prod(shape) == 0:
        return 0
    return 1 + sum((n - 1) * s for n, s in zip(shape, strides, strict=True))


def contiguous(shape: tuple[int, ...]) -> tuple[int, ...]:
    """Strides of a tensor whose last dimension runs fastest."""
    strides, step = [], 1
    for n in reversed(shape):
        strides.append(step)
        step *= max(n, 1)
    return tuple(reversed(strides))


def require_apart(spans: list[tuple[int, int, str]], location: str) -> None:
    """Refuse tensors that lie within one another: first byte, end and name of each."""
    before, whose = 0, ""
    for start, end, name in sorted(s for s in spans if s[0] < s[1]):
        if start < before:
            raise Refusal(
                f"`{shown(name)}` in `{printable(location)}` begins within `{shown(whose)}`: the "
                "file is damaged."
            )
        before, whose = end, name


def require_shape(shape: object, what: str) -> tuple[int, ...]:
    """Sizes along dimensions, checked to be some.

    Args:
        shape: A list or tuple from outside.
        what: Whose, as the beginning of a sentence.

    Raises:
        Refusal: If they are not, or too many or too large.
    """
    sizes = tuple(shape) if isinstance(shape, list | tuple) else (None,)
    fine = len(sizes) <= DIMENSIONS and all(type(n) is int and 0 <= n < LARGEST for n in sizes)
    # torch counts a size of zero as one where it multiplies for strides
    if not fine or prod(max(n or 0, 1) for n in sizes) >= LARGEST >> 4:
        raise Refusal(
            f"{what} must have a shape of at most {DIMENSIONS} sizes that are whole, not negative "
            "and not beyond all memory: the file is damaged."
        )
    return tuple(n for n in sizes if n is not None)
