"""Weights of 2, 3, 4 and 8 bits in words of 32: GPTQ and AWQ.

Source:
    Frantar et al. (2023), "GPTQ"; Lin et al. (2024), "AWQ"; the layouts are those of AutoGPTQ
    (`pack` of its linear layers, whose zeros are stored less one; `gptq_v2` stores them as they
    are) and of AutoAWQ (`gemm`).
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from sigmascope.sources.stored.raws import Raw
from sigmascope.sources.stored.ways import Shape, Way, require_fit

WORD = 32
ORDER = (0, 2, 4, 6, 1, 3, 5, 7)  # which column each half byte of an AWQ word is, lowest first


@dataclass(frozen=True, slots=True)
class Gptq(Way):
    """`W[o, i] = scales[g(i), o] (q[i, o] - z[g(i), o])`; raws: qweight, qzeros, scales, g_idx.

    Attributes:
        bits: Of a code.
        added: To every stored zero: 1, and 0 in `gptq_v2`.
    """

    bits: int
    added: int

    def rows(self, raws: Sequence[Raw], shape: Shape, start: int, stop: int) -> Tensor:
        inner = shape[1]
        codes = unpacked(raws[0].all()[:, start:stop], self.bits)[:inner]
        zeros = unpacked(raws[1].all().mT, self.bits)[start:stop].mT.to(torch.int32)
        zeros = (zeros + self.added) & ((1 << self.bits) - 1)
        scales = raws[2].all()[:, start:stop].float()
        groups = self._groups(raws, inner, len(scales))
        weight = codes.float().sub_(zeros[groups]).mul_(scales[groups])
        return weight.mT.contiguous()

    def _groups(self, raws: Sequence[Raw], inner: int, count: int) -> Tensor:
        if len(raws) > 3:
            groups = raws[3].all().long()
            fits = groups.numel() == 0 or (int(groups.min()) >= 0 and int(groups.max()) < count)
            require_fit(fits, "its g_idx names groups that have no scales")
            return groups
        return torch.arange(inner) // -(-inner // max(count, 1))


@dataclass(frozen=True, slots=True)
class Awq(Way):
    """`W[o, i] = scales[g(i), o] (q[i, o] - z[g(i), o])`; raws: qweight, qzeros, scales."""

    def rows(self, raws: Sequence[Raw], shape: Shape, start: int, stop: int) -> Tensor:
        words = slice(start // 8, -(-stop // 8))
        inside = slice(start - 8 * words.start, stop - 8 * words.start)
        codes = _columns(raws[0].all()[:, words])[:, inside]
        zeros = _columns(raws[1].all()[:, words])[:, inside]
        scales = raws[2].all()[:, start:stop].float()
        groups = torch.arange(shape[1]) // (shape[1] // max(len(scales), 1))
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


def bits_of(qweight: Shape, qzeros: Shape, scales: Shape, inner: int | None) -> int | None:
    """Bits of a GPTQ code, from shapes alone; None where they fit no reading.

    Args:
        qweight: `[in * bits / 32, out]`.
        qzeros: `[groups, out * bits / 32]`.
        scales: `[groups, out]`.
        inner: Columns of the weight where `g_idx` tells.
    """
    if not all(len(s) == 2 for s in (qweight, qzeros, scales)) or not all(scales):
        return None
    groups, out = scales
    if qweight[1] != out or qzeros[0] != groups:
        return None
    for bits in (2, 3, 4, 8):
        words = -(-out * bits // WORD)
        rows = None if inner is None else -(-inner * bits // WORD)
        if qzeros[1] == words and rows in (None, qweight[0]):
            return bits
    return None
