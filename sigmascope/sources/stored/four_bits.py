"""Weights of four bits as bitsandbytes stores them: NF4 and FP4, with scales of blocks.

Source:
    Dettmers et al. (2023), "QLoRA", section 3; the layout is that of `bitsandbytes`
    (`QuantState.as_dict(packed=True)`): the first of two codes is in the high half of a byte.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import torch
from torch import Tensor

from sigmascope.gate import Refusal
from sigmascope.sources.stored.raws import Raw, require_shape
from sigmascope.sources.stored.ways import Shape, Way, require_fit

KINDS = ("nf4", "fp4")
STATE = ".quant_state.bitsandbytes__"
LONGEST = 1 << 16  # bytes of a state, which holds ten numbers
PARTS = (".absmax", ".quant_map")
NESTED = (".nested_absmax", ".nested_quant_map")
WITHIN = 1 << 22  # codes that are turned at once


@dataclass(frozen=True, slots=True)
class FourBits(Way):
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

    def rows(self, raws: Sequence[Raw], shape: Shape, start: int, stop: int) -> Tensor:
        row = prod(shape[1:])
        first, last = start * row, stop * row
        packed = raws[0].all().view(torch.uint8).flatten()
        table, scales = raws[2].all().float().flatten(), self._scales(raws)
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

    def _scales(self, raws: Sequence[Raw]) -> Tensor:
        scales = raws[1].all().flatten()
        if not self.nested:
            return scales.float()
        sizes, table = raws[3].all().float().flatten(), raws[4].all().float().flatten()
        fits = len(sizes) * self.nested >= len(scales) and len(table) >= 256
        require_fit(fits and scales.dtype == torch.uint8, "its nested scales do not fit")
        blocks = torch.arange(len(scales)) // self.nested
        return table[scales.long()] * sizes[blocks] + self.shift


def state_name(name: str, raws: Mapping[str, Raw]) -> str | None:
    """The name of the state of a weight of four bits; None where it has none."""
    return next((s for kind in KINDS if (s := f"{name}{STATE}{kind}") in raws), None)


def four_bits(name: str, state: str, raws: Mapping[str, Raw]) -> tuple[Shape, tuple[str, ...], Way]:
    """The shape of a weight of four bits, the raw names it is read from, and how.

    Its state is read, a small JSON, for nothing else tells the shape.

    Raises:
        Refusal: If the state is damaged, or a part of the weight is not there.
    """
    if raws[state].bytes > LONGEST or raws[state].dtype != torch.uint8:
        raise Refusal("its state is too large or no text")
    fields = _parsed(bytes(raws[state].all().numpy()))
    nested = f"{name}{NESTED[0]}" in raws
    names = (name, *(name + part for part in PARTS + (NESTED if nested else ())))
    missing = [n for n in names if n not in raws]
    if missing:
        raise Refusal("a part of it is not in the file")
    shape = require_shape(fields.get("shape"), "its state")
    block, inner = fields.get("blocksize"), fields.get("nested_blocksize", 256) if nested else 0
    shift = fields.get("nested_offset", 0.0) if nested else 0.0
    if type(block) is not int or block < 1 or type(inner) is not int or inner < nested:
        raise Refusal("its state has no size of blocks")
    if not isinstance(shift, int | float) or not shape:
        raise Refusal("its state has no shape, or an offset that is no number")
    count = prod(shape)
    if 2 * raws[name].bytes < count or prod(raws[names[1]].shape) * block < count:
        raise Refusal("its codes or scales are fewer than its shape needs")
    return shape, (*names, state), FourBits(block, inner, float(shift))


def _parsed(text: bytes) -> dict[str, Any]:
    try:
        fields = json.loads(text)
    except (ValueError, RecursionError):
        fields = None
    if not isinstance(fields, dict):
        raise Refusal("its state is no JSON object")
    return fields
