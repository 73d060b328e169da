"""Which arrays of a file make up a weight, and what is left out.

Libraries of quantisation store one weight as several arrays. Their names and shapes say which; the
`quantization_config` of a model is asked only what they do not say.
"""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from math import prod
from typing import Any

import torch

from sigmascope.checkpoints.arrays import EIGHTHS, FLOATS, Array, require_shape, word
from sigmascope.checkpoints.decoders import (
    WORD,
    Awq,
    Decoder,
    FourBits,
    Gptq,
    Plain,
    RowsOf8,
    Scaled,
    Shape,
    grid,
)
from sigmascope.checkpoints.tensors import LeftOut, Stored
from sigmascope.core.guard import Refusal, printable

SCALES = ("_scale_inv", "_scale")  # DeepSeek-V3; compressed-tensors and FBGEMM
BESIDE = ("scale", "scale_weight")  # in the place of `weight`: DeepSeek's own files; ComfyUI
STATES = (".quant_state.bitsandbytes__nf4", ".quant_state.bitsandbytes__fp4")
PARTS = (".absmax", ".quant_map", ".nested_absmax", ".nested_quant_map")  # beside such a state
LONGEST = 1 << 16  # bytes of a state, which holds ten numbers
Arrays = Mapping[str, Array]
Made = tuple[str, Shape, str, Decoder]  # name of a weight, its shape and kind in words, and how
Group = tuple[tuple[str, ...], Callable[[], Made]]  # names in the order that the decoder takes


def assembled(arrays: Arrays, config: Mapping[str, Any]) -> tuple[list[Stored], list[LeftOut]]:
    """The weights that arrays make up, in their order, and the names that make up none.

    Args:
        arrays: All of a checkpoint by name.
        config: Of the model, for its `quantization_config`.
    """
    quantised = config.get("quantization_config")
    settings = quantised if isinstance(quantised, Mapping) else {}
    groups = {n: g for n in arrays if (g := _group(n, arrays, settings)) is not None}
    taken = {name for names, _ in groups.values() for name in names}
    tensors, left = [], []
    for name, array in arrays.items():
        if name in groups:
            names, make = groups[name]
            try:
                tensors.append(Stored.of(*make(), {n: arrays[n] for n in names}))
            except Refusal as error:
                why = f"which cannot be read: {str(error).rstrip('.')}."
                left += [LeftOut(n, f"Part of a packed weight, {why}") for n in names]
        elif name in taken:
            continue
        elif (whose := _scales_of(name, arrays, taken)) is not None:
            left.append(LeftOut(name, f"Scales of `{whose}`, whose codes cannot be read."))
        elif array.dtype in FLOATS or array.dtype in EIGHTHS:
            kind = word(array.dtype)
            tensors.append(Stored.of(name, array.shape, kind, Plain(), {name: array}))
        else:
            left.append(LeftOut(name, why_not(array.dtype)))
    return tensors, left


def why_not(dtype: torch.dtype) -> str:
    """Why numbers of a kind are no weights here."""
    kind = word(dtype)
    if dtype.is_complex:
        return f"{kind}: complex numbers, which are not read; save their real and imaginary parts."
    if dtype == torch.bool:
        return "bool: a mask, not weights."
    if dtype in (torch.int8, torch.uint8):
        return f"{kind} without scales: codes, or a mask, of which no weights can be made."
    if dtype.is_floating_point:
        return f"{kind}: packed numbers whose layout is not known here."
    return f"{kind}: whole numbers (an index, a count or codes of an unknown layout), not weights."


def _scales_of(name: str, arrays: Arrays, taken: set[str]) -> str | None:
    """The codes, packed in a way that is not read, that a tensor has the scales of."""
    end = name.rfind("_", 0, max(name.rfind("_scale"), name.rfind("_zero_point"), 0) + 1)
    for stem in {name[:end], name[:end].removesuffix("_global")} if end > 0 else ():
        for whose in (stem, f"{stem}_packed", f"{stem}_blocks"):
            array = arrays.get(whose)
            if array is not None and whose not in taken and not array.dtype.is_floating_point:
                return printable(whose)
    return None


def _group(name: str, arrays: Arrays, settings: Mapping[str, Any]) -> Group | None:
    """The group that a name leads, if it does."""
    present = lambda names: tuple(n for n in names if n in arrays)
    array = arrays[name]
    if name.endswith(".qweight") or name == "qweight":
        stem = name.removesuffix("qweight")
        names = present(stem + part for part in ("qweight", "qzeros", "scales", "g_idx"))
        return names, lambda: _words(stem, arrays, settings)
    if (state := next((s for end in STATES if (s := name + end) in arrays), None)) is not None:
        names = present((name, *(name + part for part in PARTS), state))
        return names, lambda: _four_bits(name, state, arrays)
    if array.dtype not in EIGHTHS and array.dtype != torch.int8:
        return None
    stem = name.removesuffix("weight")
    if array.dtype == torch.int8 and stem != name and f"{stem}SCB" in arrays:
        names = present((name, f"{stem}SCB", f"{stem}weight_format"))
        return names, lambda: _rows(name, arrays[f"{stem}SCB"], array)
    beside = [stem + end for end in BESIDE] if stem != name else []
    scale = next(iter(present([name + end for end in SCALES] + beside)), None)
    if scale is None:
        return None
    names = present((name, scale, f"{name}_zero_point"))
    return names, lambda: _scaled([arrays[n] for n in names], name, settings)


def _rows(name: str, scales: Array, codes: Array) -> Made:
    if len(codes.shape) != 2 or prod(scales.shape) != codes.shape[0]:
        raise Refusal(f"its `SCB` must have one scale for each row, got {scales.shape}")
    return name, codes.shape, "int8 (bitsandbytes)", RowsOf8()


def _scaled(parts: Sequence[Array], name: str, settings: Mapping[str, Any]) -> Made:
    codes, scales, *zeros = parts
    if scales.dtype not in FLOATS and scales.dtype not in EIGHTHS:
        raise Refusal(f"its scales are {word(scales.dtype)}, of a layout that is not known")
    given = settings.get("weight_block_size")
    fine = isinstance(given, list | tuple) and all(type(n) is int and n > 0 for n in given)
    block = block_of(codes.shape, scales.shape, given if fine and given else (128, 128))
    if block is None or any(prod(zero.shape) != prod(scales.shape) for zero in zeros):
        raise Refusal(
            f"scales of shape {scales.shape} fit no blocks of a weight of shape {codes.shape}"
        )
    return name, codes.shape, f"{word(codes.dtype)} (scaled)", Scaled(block)


def block_of(shape: Shape, scales: Shape, given: Sequence[int] = (128, 128)) -> Shape | None:
    """Which block each of the scales is for; None where their shape fits no reading.

    Args:
        shape: Of the codes.
        scales: Their shape.
        given: Sizes of a block that the configuration names, or DeepSeek's.
    """
    tail = shape[-2:]
    whole = tuple(max(n, 1) for n in tail)
    if prod(scales) == 1:
        return whole
    rows = (1, max(tail[-1], 1)) if len(tail) == 2 else (1,)
    columns = (whole[0], 1) if len(tail) == 2 else (1,)
    blocks = tuple(given[-len(tail) :]) if len(given) >= len(tail) else rows
    for block in (rows, whole, columns, blocks):
        if _bare(grid(shape, block)) == _bare(scales):
            return block
    # groups of whole columns within a row, as compressed-tensors stores them
    groups = len(shape) == len(scales) == 2 and scales[0] == shape[0] and scales[1]
    return (1, shape[1] // scales[1]) if groups and shape[1] % scales[1] == 0 else None


def _bare(shape: Shape) -> Shape:
    """Without ones at the end: one scale for each row is stored as `[n]` and as `[n, 1]`."""
    while shape and shape[-1] == 1:
        shape = shape[:-1]
    return shape


def _words(stem: str, arrays: Arrays, settings: Mapping[str, Any]) -> Made:
    """Codes in words: AWQ packs them along rows, GPTQ down columns, which their shapes tell."""
    parts: Iterable[Array | None] = map(
        arrays.get, (f"{stem}qweight", f"{stem}qzeros", f"{stem}scales")
    )
    words, zeros, scales = parts
    if words is None or zeros is None or scales is None:
        raise Refusal("its qzeros or scales are not in the file")
    order = arrays.get(f"{stem}g_idx")
    layout = str(settings.get("checkpoint_format") or settings.get("version") or "").lower()
    integers = words.dtype == zeros.dtype == torch.int32 and scales.dtype in FLOATS
    if not integers or layout not in ("", "gptq", "gptq_v2", "gemm"):
        raise Refusal(f"the layout `{printable(layout)}` of its words is not known")
    shapes = (words.shape, zeros.shape, scales.shape)
    if not all(len(s) == 2 for s in shapes) or not all(scales.shape):
        raise Refusal(f"shapes {shapes} of its words, zeros and scales fit no layout that is known")
    (rows, columns), (groups, out) = words.shape, scales.shape
    by_columns = out == 8 * columns and zeros.shape == (groups, columns) and rows % groups == 0
    if by_columns and order is None:
        return f"{stem}weight", (out, rows), "int4 (AWQ)", Awq()
    inner = None if order is None else prod(order.shape)
    bits = bits_of(*shapes, inner)
    if bits is None or (order is not None and order.dtype not in (torch.int32, torch.int64)):
        raise Refusal(f"shapes {shapes} of its words, zeros and scales fit no layout that is known")
    shape = (out, rows * WORD // bits if inner is None else inner)
    added = 0 if layout == "gptq_v2" else 1
    return f"{stem}weight", shape, f"int{bits} (GPTQ)", Gptq(bits, added)


def bits_of(qweight: Shape, qzeros: Shape, scales: Shape, inner: int | None) -> int | None:
    """Bits of a GPTQ code, from shapes alone; None where they fit no reading.

    Args:
        qweight: `[in * bits / 32, out]`.
        qzeros: `[groups, out * bits / 32]`.
        scales: `[groups, out]`.
        inner: Columns of the weight where `g_idx` tells.
    """
    groups, out = scales
    if qweight[1] != out or qzeros[0] != groups:
        return None
    for bits in (2, 3, 4, 8):
        rows = qweight[0] if inner is None else -(-inner * bits // WORD)
        if qzeros[1] == -(-out * bits // WORD) and rows == qweight[0]:
            return bits
    return None


def _four_bits(name: str, state: str, arrays: Arrays) -> Made:
    """A weight of bitsandbytes in four bits; its state, a small JSON, is read for the shape."""
    if arrays[state].bytes > LONGEST or arrays[state].dtype != torch.uint8:
        raise Refusal("its state is too large or no text")
    try:
        fields = json.loads(bytes(arrays[state].all().numpy()))
    except (ValueError, RecursionError):
        fields = None
    if not isinstance(fields, dict):
        raise Refusal("its state is no JSON object")
    nested = f"{name}{PARTS[2]}" in arrays
    if any(name + part not in arrays for part in PARTS[: 4 if nested else 2]):
        raise Refusal("a part of it is not in the file")
    shape = require_shape(fields.get("shape"), "its state")
    block, inner = fields.get("blocksize"), fields.get("nested_blocksize", 256) if nested else 0
    shift = fields.get("nested_offset", 0.0) if nested else 0.0
    if type(block) is not int or block < 1 or type(inner) is not int or inner < nested:
        raise Refusal("its state has no size of blocks")
    if not isinstance(shift, int | float) or not shape:
        raise Refusal("its state has no shape, or an offset that is no number")
    count = prod(shape)
    if 2 * arrays[name].bytes < count or prod(arrays[name + PARTS[0]].shape) * block < count:
        raise Refusal("its codes or scales are fewer than its shape needs")
    kind = f"{state.rpartition('__')[2]} (bitsandbytes)"
    return name, shape, kind, FourBits(block, inner, float(shift))
