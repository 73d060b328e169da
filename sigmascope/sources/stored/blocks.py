"""Numbers of GGUF in blocks: codes of a few bits and a scale for each block.

Source:
    github.com/ggml-org/ggml, src/ggml-quants.c and ggml-common.h: the layout of each block and the
    arithmetic of `dequantize_row_*`, in float32.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from sigmascope.sources.stored.k_blocks import K_KINDS, half, nibbles
from sigmascope.sources.stored.raws import Raw
from sigmascope.sources.stored.ways import Shape, Way

Bytes = NDArray[np.integer[Any]]
Floats = NDArray[np.float32]
WITHIN = 1 << 22  # numbers that are turned at once: what lies between takes ten times their bytes
STEPS = np.array(  # of IQ4_NL and IQ4_XS
    [-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113], dtype=np.float32
)
E2M1 = np.array([0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12], dtype=np.float32)


class Kind(NamedTuple):
    """A kind of block: its name, how many numbers are in how many bytes, and what they are."""

    name: str
    numbers: int
    bytes: int
    turn: Callable[[Bytes], Floats]


@dataclass(frozen=True, slots=True)
class Blocks(Way):
    """Rows of blocks, each turned into float32.

    Attributes:
        kind: The number that ggml has for it.
    """

    kind: int

    def rows(self, raws: Sequence[Raw], shape: Shape, start: int, stop: int) -> Tensor:
        kind = KINDS[self.kind]
        alone = len(shape) == 1  # a vector: its rows are numbers, so that blocks are cut
        whole = raws[0].all() if alone else raws[0].rows(start, stop)
        blocks = whole.numpy().reshape(-1, kind.bytes)
        out = np.empty((len(blocks), kind.numbers), dtype=np.float32)
        step = max(WITHIN // kind.numbers, 1)
        with np.errstate(all="ignore"):  # scales that are not finite come as they are
            for at in range(0, len(blocks), step):
                out[at : at + step] = kind.turn(blocks[at : at + step])
        numbers = torch.from_numpy(out)
        if alone:
            return numbers.flatten()[start:stop].clone()
        return numbers.reshape(stop - start, *shape[1:])


def _high(blocks: Bytes) -> Bytes:
    """The fifth bits of 32 codes, from four bytes."""
    bits = np.unpackbits(np.ascontiguousarray(blocks, dtype=np.uint8), axis=1, bitorder="little")
    return bits << np.uint8(4)


def q4_0(blocks: Bytes) -> Floats:
    """`d (q - 8)`: a half, 16 bytes of codes."""
    return half(blocks[:, :2]) * (nibbles(blocks[:, 2:], 16).astype(np.float32) - 8)


def q4_1(blocks: Bytes) -> Floats:
    """`d q + m`: two halves, 16 bytes of codes."""
    codes = nibbles(blocks[:, 4:], 16).astype(np.float32)
    return half(blocks[:, :2]) * codes + half(blocks[:, 2:4])


def q5_0(blocks: Bytes) -> Floats:
    """`d (q - 16)`: a half, 4 bytes of fifth bits, 16 bytes of codes."""
    codes = nibbles(blocks[:, 6:], 16) | _high(blocks[:, 2:6])
    return half(blocks[:, :2]) * (codes.astype(np.float32) - 16)


def q5_1(blocks: Bytes) -> Floats:
    """`d q + m`: two halves, 4 bytes of fifth bits, 16 bytes of codes."""
    codes = nibbles(blocks[:, 8:], 16) | _high(blocks[:, 4:8])
    return half(blocks[:, :2]) * codes.astype(np.float32) + half(blocks[:, 2:4])


def q8_0(blocks: Bytes) -> Floats:
    """`d q`: a half, 32 codes of int8."""
    return half(blocks[:, :2]) * blocks[:, 2:].view(np.int8).astype(np.float32)


def iq4_nl(blocks: Bytes) -> Floats:
    """`d step[q]`: a half, 16 bytes of codes into uneven steps."""
    return half(blocks[:, :2]) * STEPS[nibbles(blocks[:, 2:], 16)]


def iq4_xs(blocks: Bytes) -> Floats:
    """`d (s - 32) step[q]`: a half, scales of 6 bits for each 32 numbers, 128 bytes of codes."""
    high = np.ascontiguousarray(blocks[:, 2:4]).view("<u2").astype(np.uint16)
    high = (high >> np.arange(0, 16, 2, dtype=np.uint16)) & 3
    low = (blocks[:, 4:8, None] >> np.array([0, 4], dtype=np.uint8)) & 15
    scales = (low.reshape(-1, 8) | (high << 4)).astype(np.float32) - 32
    codes = nibbles(blocks[:, 8:], 16).reshape(-1, 8, 32)
    return ((half(blocks[:, :2]) * scales)[:, :, None] * STEPS[codes]).reshape(-1, 256)


def mxfp4(blocks: Bytes) -> Floats:
    """`2^(e - 128) e2m1[q]`: an exponent of 8 bits, 16 bytes of codes of doubled E2M1."""
    scale = np.ldexp(np.float32(1), blocks[:, :1].astype(np.int32) - 128)
    return scale.astype(np.float32) * E2M1[nibbles(blocks[:, 1:], 16)]


KINDS = {
    2: Kind("Q4_0", 32, 18, q4_0),
    3: Kind("Q4_1", 32, 20, q4_1),
    6: Kind("Q5_0", 32, 22, q5_0),
    7: Kind("Q5_1", 32, 24, q5_1),
    8: Kind("Q8_0", 32, 34, q8_0),
    20: Kind("IQ4_NL", 32, 18, iq4_nl),
    23: Kind("IQ4_XS", 256, 136, iq4_xs),
    39: Kind("MXFP4", 32, 17, mxfp4),
    **{number: Kind(*entry) for number, entry in K_KINDS.items()},
}
