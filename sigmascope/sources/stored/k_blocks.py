"""Numbers of GGUF in blocks of 256, with scales of scales: the K kinds.

Source:
    github.com/ggml-org/ggml, src/ggml-quants.c, `dequantize_row_q2_K` and its kin.
"""

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

Bytes = NDArray[np.integer[Any]]
Floats = NDArray[np.float32]
TWOS = np.array([0, 2, 4, 6], dtype=np.uint8)


def half(blocks: Bytes) -> Floats:
    """Numbers of two bytes each, as float32."""
    return np.ascontiguousarray(blocks).view("<f2").astype(np.float32)


def nibbles(blocks: Bytes, run: int) -> Bytes:
    """Codes of four bits: of each run of bytes first all low halves, then all high ones."""
    runs = blocks.reshape(len(blocks), -1, 1, run)
    return np.concatenate((runs & 15, runs >> 4), axis=2).reshape(len(blocks), -1)


def pairs(blocks: Bytes, run: int) -> Bytes:
    """Codes of two bits: of each run of bytes first all lowest pairs, then the next."""
    runs = blocks.reshape(len(blocks), -1, 1, run)
    return ((runs >> TWOS[:, None]) & 3).reshape(len(blocks), -1)


def bits(blocks: Bytes) -> Bytes:
    """32 bytes as 256 bits: first the lowest of all bytes, then the next."""
    shifts = np.arange(8, dtype=np.uint8)[:, None]
    return ((blocks[:, None, :] >> shifts) & 1).reshape(len(blocks), -1)


def _scaled(scales: Floats, codes: NDArray[np.generic], offsets: Floats | None = None) -> Floats:
    """Codes times the scale of their run, less its offset."""
    runs = codes.reshape(*scales.shape, -1).astype(np.float32)
    runs *= scales[..., None]
    if offsets is not None:
        runs -= offsets[..., None]
    return runs.reshape(len(codes), -1)


def q2_k(blocks: Bytes) -> Floats:
    """`d s q - m o`: 16 scales and offsets of 4 bits, 64 bytes of codes, two halves."""
    scales, d, least = blocks[:, :16], half(blocks[:, 80:82]), half(blocks[:, 82:84])
    return _scaled(d * (scales & 15), pairs(blocks[:, 16:80], 32), least * (scales >> 4))


def q3_k(blocks: Bytes) -> Floats:
    """`d (s - 32) (q - 4)`: third bits, 64 bytes of codes, 16 scales of 6 bits, a half."""
    codes = pairs(blocks[:, 32:96], 32) | (bits(blocks[:, :32]) << np.uint8(2))
    low = nibbles(blocks[:, 96:104], 8)
    scales = low | (pairs(blocks[:, 104:108], 4) << np.uint8(4))
    d = half(blocks[:, 108:110]) * (scales.astype(np.float32) - 32)
    return _scaled(d, codes.astype(np.int8) - np.int8(4))


def _six(blocks: Bytes) -> tuple[Bytes, Bytes]:
    """Eight scales and eight offsets of 6 bits from twelve bytes."""
    first, second, rest = blocks[:, :4], blocks[:, 4:8], blocks[:, 8:]
    scales = np.concatenate((first & 63, (rest & 15) | ((first >> 2) & 48)), axis=1)
    offsets = np.concatenate((second & 63, (rest >> 4) | ((second >> 2) & 48)), axis=1)
    return scales, offsets


def q4_k(blocks: Bytes) -> Floats:
    """`d s q - m o`: two halves, 8 scales and offsets of 6 bits, 128 bytes of codes."""
    scales, offsets = _six(blocks[:, 4:16])
    d, least = half(blocks[:, :2]), half(blocks[:, 2:4])
    return _scaled(d * scales, nibbles(blocks[:, 16:], 32), least * offsets)


def q5_k(blocks: Bytes) -> Floats:
    """As `q4_k`, with 32 bytes of fifth bits before the codes."""
    scales, offsets = _six(blocks[:, 4:16])
    d, least = half(blocks[:, :2]), half(blocks[:, 2:4])
    codes = nibbles(blocks[:, 48:], 32) | (bits(blocks[:, 16:48]) << np.uint8(4))
    return _scaled(d * scales, codes, least * offsets)


def q6_k(blocks: Bytes) -> Floats:
    """`d s (q - 32)`: 128 bytes of low bits, 64 of high ones, 16 scales of int8, a half."""
    codes = nibbles(blocks[:, :128], 64) | (pairs(blocks[:, 128:192], 32) << np.uint8(4))
    d = half(blocks[:, 208:210]) * blocks[:, 192:208].view(np.int8).astype(np.float32)
    return _scaled(d, codes.astype(np.int8) - np.int8(32))


def q8_k(blocks: Bytes) -> Floats:
    """`d q`: a float32, 256 codes of int8, and sums that are not needed."""
    d = np.ascontiguousarray(blocks[:, :4]).view("<f4").astype(np.float32)
    return d * blocks[:, 4:260].view(np.int8).astype(np.float32)


K_KINDS: dict[int, tuple[str, int, int, Callable[[Bytes], Floats]]] = {
    10: ("Q2_K", 256, 84, q2_k),
    11: ("Q3_K", 256, 110, q3_k),
    12: ("Q4_K", 256, 144, q4_k),
    13: ("Q5_K", 256, 176, q5_k),
    14: ("Q6_K", 256, 210, q6_k),
    15: ("Q8_K", 256, 292, q8_k),
}
