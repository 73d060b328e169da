"""How numbers are made of what a file holds: as they are, or times scales."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

import torch
from torch import Tensor

from sigmascope.gate import Refusal
from sigmascope.sources.stored.raws import FLOATS, Raw

Shape = tuple[int, ...]


class Way(ABC):
    """What is done with raw tensors to get the rows of a logical one."""

    __slots__ = ()

    @abstractmethod
    def rows(self, raws: Sequence[Raw], shape: Shape, start: int, stop: int) -> Tensor:
        """Rows `[start, stop)` of a tensor of this shape, floating point on the CPU.

        Raises:
            Refusal: If what the raw tensors hold is not what this way reads.
        """


@dataclass(frozen=True, slots=True)
class Plain(Way):
    """Floating point as it is; kinds of eight bits as float32."""

    def rows(self, raws: Sequence[Raw], shape: Shape, start: int, stop: int) -> Tensor:
        return floating(raws[0].rows(start, stop))


@dataclass(frozen=True, slots=True)
class Turned(Way):
    """The transpose of a floating point matrix."""

    def rows(self, raws: Sequence[Raw], shape: Shape, start: int, stop: int) -> Tensor:
        return floating(raws[0].all()).mT[start:stop].contiguous()


@dataclass(frozen=True, slots=True)
class Scaled(Way):
    """Codes times scales: one for all, one for each row, or one for each block.

    The raw tensors are the codes, the scales, and perhaps the code of zero.

    Attributes:
        block: Codes of one scale along the last two dimensions (or the one, of a vector); the last
            block may be cut.
        divisor: Of the scales.
    """

    block: tuple[int, ...]
    divisor: float = 1.0

    def rows(self, raws: Sequence[Raw], shape: Shape, start: int, stop: int) -> Tensor:
        codes = raws[0].rows(start, stop).float()
        scales = raws[1].all().float() / self.divisor
        if len(raws) > 2:
            codes -= self._spread(raws[2].all().float(), shape, start, stop)
        return codes.mul_(self._spread(scales, shape, start, stop))

    def _spread(self, scales: Tensor, shape: Shape, start: int, stop: int) -> Tensor:
        """The scales at every code of the rows, ones that are alike not repeated."""
        if scales.numel() == 1:
            return scales.reshape(())
        scales = scales.reshape(grid(shape, self.block))
        outer = len(shape) - len(self.block)
        for d, size in enumerate(self.block):
            n = shape[outer + d]
            inside = (start, stop) if outer + d == 0 else (0, n)
            if scales.shape[outer + d] > 1:
                place = torch.arange(*inside) // size
                scales = scales.index_select(outer + d, place)
        return scales if outer == 0 else scales[start:stop]


def grid(shape: Shape, block: tuple[int, ...]) -> Shape:
    """How many scales a tensor of this shape has along each dimension."""
    outer = len(shape) - len(block)
    return (*shape[:outer], *(-(-n // b) for n, b in zip(shape[outer:], block, strict=True)))


def block_of(shape: Shape, scales: Shape, given: Sequence[int] = (128, 128)) -> Shape | None:
    """Which block each of the scales is for; None where their shape fits no reading.

    Args:
        shape: Of the codes.
        scales: Their shape.
        given: Sizes of a block that the configuration names, or DeepSeek's.
    """
    tail = shape[-2:]
    if prod(scales) == 1:
        return tuple(max(n, 1) for n in tail)
    rows = (1, max(tail[-1], 1)) if len(tail) == 2 else (1,)
    whole = tuple(max(n, 1) for n in tail)
    columns = (whole[0], 1) if len(tail) == 2 else (1,)
    blocks = tuple(given[-len(tail) :]) if len(given) >= len(tail) else rows
    for block in (rows, whole, columns, blocks):
        if _bare(grid(shape, block)) == _bare(scales):
            return block
    return _groups(shape, scales)


def _bare(shape: Shape) -> Shape:
    """Without ones at the end: one scale for each row is stored as `[n]` and as `[n, 1]`."""
    while shape and shape[-1] == 1:
        shape = shape[:-1]
    return shape


def _groups(shape: Shape, scales: Shape) -> Shape | None:
    """Groups of whole columns within a row, as compressed-tensors stores them."""
    if len(shape) != 2 or len(scales) != 2 or scales[0] != shape[0] or not scales[1]:
        return None
    return (1, shape[1] // scales[1]) if shape[1] % scales[1] == 0 else None


def floating(tensor: Tensor) -> Tensor:
    """A tensor in a kind of number that torch computes with: itself, or float32."""
    return tensor if tensor.dtype in FLOATS else tensor.float()


def require_fit(fits: bool, why: str) -> None:
    """Refuse numbers of a packed tensor that do not belong together.

    Raises:
        Refusal: If they do not fit.
    """
    if not fits:
        raise Refusal(f"A packed tensor cannot be read: {why}. The file is damaged.")
