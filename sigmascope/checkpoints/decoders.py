"""How numbers are made of what a file holds: as they are, times scales, or unpacked.

Source:
    Dettmers et al. (2022), "LLM.int8()", section 2.1, and (2023), "QLoRA", section 3, in the layout
    of bitsandbytes (`QuantState.as_dict(packed=True)`: the first of two codes is in the high half
    of a byte); Frantar et al. (2023), "GPTQ"; Lin et al. (2024), "AWQ", in the layouts of AutoGPTQ
    (`pack` of its linear layers, whose zeros are stored less one; `gptq_v2` stores them as they
    are) and of AutoAWQ (`gemm`).
"""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

import torch
from torch import Tensor

from sigmascope.checkpoints.arrays import FLOATS, Array
from sigmascope.core.guard import Refusal

Shape = tuple[int, ...]
WORD = 32
ORDER = (0, 2, 4, 6, 1, 3, 5, 7)  # which column each half byte of an AWQ word is, lowest first
WITHIN = 1 << 22  # codes that are decoded at once


class Decoder(ABC):
    """What is done with raw tensors to get the rows of a logical one."""

    __slots__ = ()

    @abstractmethod
    def rows(self, arrays: Sequence[Array], shape: Shape, start: int, stop: int) -> Tensor:
        """Rows `[start, stop)` of a tensor of this shape, floating point on the CPU.

        Raises:
            Refusal: If what the raw tensors hold is not what it reads.
        """


@dataclass(frozen=True, slots=True)
class Plain(Decoder):
    """Floating point as it is; kinds of eight bits as float32."""

    def rows(self, arrays: Sequence[Array], shape: Shape, start: int, stop: int) -> Tensor:
        return floating(arrays[0].rows(start, stop))


@dataclass(frozen=True, slots=True)
class Flattened(Decoder):
    """A floating point kernel as the matrix of its taps."""

    def rows(self, arrays: Sequence[Array], shape: Shape, start: int, stop: int) -> Tensor:
        return floating(arrays[0].rows(start, stop)).flatten(1)


@dataclass(frozen=True, slots=True)
class Turned(Decoder):
    """The transpose of a floating point matrix."""

    def rows(self, arrays: Sequence[Array], shape: Shape, start: int, stop: int) -> Tensor:
        return floating(arrays[0].all()).mT[start:stop].contiguous()


@dataclass(frozen=True, slots=True)
class Scaled(Decoder):
    """Codes times scales: one for all, one for each row, or one for each block.

    The raw tensors are the codes, the scales, and perhaps the code of zero.

    Attributes:
        block: Codes of one scale along the last two dimensions (or the one, of a vector); the last
            block may be cut.
        divisor: Of the scales.
    """

    block: tuple[int, ...]
    divisor: float = 1.0

    def rows(self, arrays: Sequence[Array], shape: Shape, start: int, stop: int) -> Tensor:
        codes = arrays[0].rows(start, stop).float()
        scales = arrays[1].all().float() / self.divisor
        if len(arrays) > 2:
            codes -= self._spread(arrays[2].all().float(), shape, start, stop)
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


@dataclass(frozen=True, slots=True)
class RowsOf8(Decoder):
    """Codes of int8 times the largest size of their row, over 127.

    The raw tensors are `weight`, `SCB` and perhaps `weight_format`, which is 0 where rows follow
    one another.
    """

    def rows(self, arrays: Sequence[Array], shape: Shape, start: int, stop: int) -> Tensor:
        if len(arrays) > 2:
            plain = not bool(arrays[2].all().any())
            require_fit(plain, "its `weight_format` is one of a GPU, of which rows are not known")
        scales = arrays[1].all().float().flatten()[start:stop] / 127
        return arrays[0].rows(start, stop).float().mul_(scales[:, None])


@dataclass(frozen=True, slots=True)
class FourBits(Decoder):
    """Codes into a table, times the largest size of their block.

    The raw tensors are the codes, the sizes of blocks, the table, and where sizes are themselves
    codes, the sizes and the table of those.

    Attributes:
        block: Codes of one scale.
        nested: Scales of one scale; 0 where they are plain.
        shift: Added to nested scales.
    """

    block: int
    nested: int
    shift: float

    def rows(self, arrays: Sequence[Array], shape: Shape, start: int, stop: int) -> Tensor:
        row = prod(shape[1:])
        first, last = start * row, stop * row
        packed = arrays[0].all().view(torch.uint8).flatten()
        table, scales = arrays[2].all().float().flatten(), arrays[1].all().flatten()
        if self.nested:
            sizes, steps = arrays[3].all().float().flatten(), arrays[4].all().float().flatten()
            fits = len(sizes) * self.nested >= len(scales) and len(steps) >= 256
            require_fit(fits and scales.dtype == torch.uint8, "its nested scales do not fit")
            own = torch.arange(len(scales)) // self.nested
            scales = steps[scales.long()] * sizes[own] + self.shift
        scales = scales.float()
        fits = len(table) >= 16 and 2 * len(packed) >= last and len(scales) * self.block >= last
        require_fit(fits, "its codes, its table or its scales are fewer than its shape needs")
        out = torch.empty(last - first)
        for at in range(first, last, WITHIN):
            end = min(at + WITHIN, last)
            half = packed[at // 2 : -(-end // 2)]
            codes = torch.stack((half >> 4, half & 15), dim=1).flatten()
            codes = codes[at - at // 2 * 2 :][: end - at].long()
            blocks = torch.arange(at, end) // self.block
            torch.mul(table[codes], scales[blocks], out=out[at - first : end - first])
        return out.reshape(stop - start, *shape[1:])


@dataclass(frozen=True, slots=True)
class Gptq(Decoder):
    """`W[o, i] = scales[g(i), o] (q[i, o] - z[g(i), o])`; arrays: qweight, qzeros, scales, g_idx.

    Attributes:
        bits: Of a code.
        added: To every stored zero: 1, and 0 in `gptq_v2`.
    """

    bits: int
    added: int

    def rows(self, arrays: Sequence[Array], shape: Shape, start: int, stop: int) -> Tensor:
        inner = shape[1]
        codes = unpacked(arrays[0].all()[:, start:stop], self.bits)[:inner]
        zeros = unpacked(arrays[1].all().mT, self.bits)[start:stop].mT.to(torch.int32)
        zeros = (zeros + self.added) & ((1 << self.bits) - 1)
        scales = arrays[2].all()[:, start:stop].float()
        if len(arrays) > 3:
            groups = arrays[3].all().long()
            known = groups.numel() == 0 or (
                int(groups.min()) >= 0 and int(groups.max()) < len(scales)
            )
            require_fit(known, "its g_idx names groups that have no scales")
        else:
            groups = torch.arange(inner) // -(-inner // max(len(scales), 1))
        weight = codes.float().sub_(zeros[groups]).mul_(scales[groups])
        return weight.mT.contiguous()


@dataclass(frozen=True, slots=True)
class Awq(Decoder):
    """`W[o, i] = scales[g(i), o] (q[i, o] - z[g(i), o])`; arrays: qweight, qzeros, scales."""

    def rows(self, arrays: Sequence[Array], shape: Shape, start: int, stop: int) -> Tensor:
        words = slice(start // 8, -(-stop // 8))
        inside = slice(start - 8 * words.start, stop - 8 * words.start)
        codes = _columns(arrays[0].all()[:, words])[:, inside]
        zeros = _columns(arrays[1].all()[:, words])[:, inside]
        scales = arrays[2].all()[:, start:stop].float()
        groups = torch.arange(shape[1]) // (shape[1] // len(scales))
        weight = codes.float().sub_(zeros[groups]).mul_(scales[groups])
        return weight.mT.contiguous()


def _columns(words: Tensor) -> Tensor:
    """Codes of four bits along each row of words, in AWQ's order."""
    shifts = torch.empty(8, dtype=torch.int32)
    shifts[torch.tensor(ORDER)] = torch.arange(0, WORD, 4, dtype=torch.int32)
    return ((words.unsqueeze(-1) >> shifts) & 15).to(torch.int8).flatten(1)


def unpacked(words: Tensor, bits: int) -> Tensor:
    """Codes down each column of words of 32 bits, a stream of bits with the lowest first.

    A code of three bits may begin in one word and end in the next.
    """
    if WORD % bits == 0:
        shifts = torch.arange(0, WORD, bits, dtype=torch.int32)[:, None]
        codes = (words.unsqueeze(1) >> shifts) & ((1 << bits) - 1)
        return codes.flatten(0, 1).to(torch.uint8)
    count = words.shape[0] * WORD // bits
    first = torch.arange(count) * bits
    low, shift = first // WORD, (first % WORD).unsqueeze(1)
    high = (low + 1).clamp(max=max(words.shape[0] - 1, 0))
    wide = words.long() & 0xFFFFFFFF
    both = wide[low] | (wide[high] << WORD)
    return ((both >> shift) & ((1 << bits) - 1)).to(torch.uint8)
