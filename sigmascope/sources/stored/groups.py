"""Which raw tensors belong together, and what is left out.

Libraries of quantisation store one weight as several tensors. Their names and shapes say which; the
`quantization_config` of a model is asked only what they do not say.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any, NamedTuple

import torch
from torch import Tensor

from sigmascope.gate import Refusal, printable
from sigmascope.sources.stored.four_bits import NESTED, PARTS, four_bits, state_name
from sigmascope.sources.stored.packings import WORD, Awq, Gptq, bits_of
from sigmascope.sources.stored.raws import EIGHTHS, FLOATS, Raw, word
from sigmascope.sources.stored.tensors import LeftOut, Stored
from sigmascope.sources.stored.ways import Plain, Scaled, Shape, Way, block_of, require_fit

SCALES = ("_scale_inv", "_scale")  # DeepSeek-V3; compressed-tensors and FBGEMM
BESIDE = ("scale", "scale_weight")  # in the place of `weight`: DeepSeek's own files; ComfyUI
ZERO = "_zero_point"
PLAIN = Plain()
Raws = Mapping[str, Raw]


class Found(NamedTuple):
    """A logical tensor: its name, shape and kind in words, and how it is made."""

    name: str
    shape: Shape
    dtype: str
    way: Way


class Group(NamedTuple):
    """Raw names that are one tensor, in the order that its way takes, and what they are."""

    names: tuple[str, ...]
    found: Callable[[], Found]


@dataclass(frozen=True, slots=True)
class RowsOf8(Way):
    """Codes of int8 times the largest size of their row, over 127.

    Source:
        Dettmers et al. (2022), "LLM.int8()", section 2.1; stored as `weight`, `SCB` and
        `weight_format`, which is 0 where rows follow one another.
    """

    def rows(self, raws: Sequence[Raw], shape: Shape, start: int, stop: int) -> Tensor:
        if len(raws) > 2:
            plain = not bool(raws[2].all().any())
            require_fit(plain, "its `weight_format` is one of a GPU, of which rows are not known")
        scales = raws[1].all().float().flatten()[start:stop] / 127
        return raws[0].rows(start, stop).float().mul_(scales[:, None])


def assembled(raws: Raws, config: Mapping[str, Any]) -> tuple[list[Stored], list[LeftOut]]:
    """The tensors that raw ones make up, in their order, and the names that make up none.

    Args:
        raws: Every raw tensor of a checkpoint by name.
        config: Of the model, for its `quantization_config`.
    """
    quantised = config.get("quantization_config")
    settings = quantised if isinstance(quantised, Mapping) else {}
    groups = {n: g for n in raws if (g := _group(n, raws, settings)) is not None}
    taken = {name for group in groups.values() for name in group.names}
    tensors, left = [], []
    for name, raw in raws.items():
        if (group := groups.get(name)) is not None:
            made = _made(group, raws, left)
            tensors += [] if made is None else [made]
        elif name in taken:
            continue
        elif (whose := _scales_of(name, raws, taken)) is not None:
            left.append(LeftOut(name, f"Scales of `{whose}`, whose codes cannot be read."))
        elif raw.dtype in FLOATS or raw.dtype in EIGHTHS:
            found = Found(name, raw.shape, word(raw.dtype), PLAIN)
            tensors.append(stored(found, (name,), (raw,)))
        else:
            left.append(LeftOut(name, why_not(raw.dtype)))
    return tensors, left


def stored(found: Found, names: tuple[str, ...], raws: tuple[Raw, ...]) -> Stored:
    """A logical tensor from the raw ones that it is made of."""
    size = sum(raw.bytes for raw in raws)
    return Stored(found.name, found.shape, found.dtype, size, names, raws, found.way)


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


def _scales_of(name: str, raws: Raws, taken: set[str]) -> str | None:
    """The codes, packed in a way that is not read, that a tensor has the scales of."""
    end = name.rfind("_", 0, max(name.rfind("_scale"), name.rfind("_zero_point"), 0) + 1)
    for stem in {name[:end], name[:end].removesuffix("_global")} if end > 0 else ():
        for whose in (stem, f"{stem}_packed", f"{stem}_blocks"):
            raw = raws.get(whose)
            if raw is not None and whose not in taken and not raw.dtype.is_floating_point:
                return printable(whose)
    return None


def _made(group: Group, raws: Raws, left: list[LeftOut]) -> Stored | None:
    try:
        return stored(group.found(), group.names, tuple(raws[n] for n in group.names))
    except Refusal as error:
        why = str(error).rstrip(".")
        left += [
            LeftOut(n, f"Part of a packed weight, which cannot be read: {why}.")
            for n in group.names
        ]
        return None


def _present(names: Iterable[str], raws: Raws) -> tuple[str, ...]:
    return tuple(name for name in names if name in raws)


def _group(name: str, raws: Raws, settings: Mapping[str, Any]) -> Group | None:
    """The group that a name leads, if it does."""
    raw = raws[name]
    if name.endswith(".qweight") or name == "qweight":
        return _words(name.removesuffix("qweight"), raws, settings)
    if (state := state_name(name, raws)) is not None:
        parts = [name, *(name + part for part in PARTS + NESTED), state]
        return Group(_present(parts, raws), lambda: _of_four_bits(name, state, raws))
    if raw.dtype not in EIGHTHS and raw.dtype != torch.int8:
        return None
    stem = name.removesuffix("weight")
    if raw.dtype == torch.int8 and stem != name and f"{stem}SCB" in raws:
        names = _present((name, f"{stem}SCB", f"{stem}weight_format"), raws)
        return Group(names, lambda: _of_rows(name, raws[f"{stem}SCB"], raw))
    scale = next((n for s in SCALES if (n := name + s) in raws), None)
    if scale is None and stem != name:
        scale = next((n for s in BESIDE if (n := stem + s) in raws), None)
    if scale is None:
        return None
    names = _present((name, scale, name + ZERO), raws)
    return Group(names, lambda: _of_scales(names, raws, settings))


def _of_rows(name: str, scales: Raw, raw: Raw) -> Found:
    if len(raw.shape) != 2 or prod(scales.shape) != raw.shape[0]:
        raise Refusal(f"its `SCB` must have one scale for each row, got {scales.shape}")
    return Found(name, raw.shape, "int8 (bitsandbytes)", RowsOf8())


def _of_scales(names: tuple[str, ...], raws: Raws, settings: Mapping[str, Any]) -> Found:
    codes, scales = raws[names[0]], raws[names[1]]
    if scales.dtype not in FLOATS and scales.dtype not in EIGHTHS:
        raise Refusal(f"its scales are {word(scales.dtype)}, of a layout that is not known")
    given = settings.get("weight_block_size")
    fine = isinstance(given, list | tuple) and all(type(n) is int and n > 0 for n in given)
    block = block_of(codes.shape, scales.shape, given if fine and given else (128, 128))
    if block is None or any(prod(raws[n].shape) != prod(scales.shape) for n in names[2:]):
        raise Refusal(
            f"scales of shape {scales.shape} fit no blocks of a weight of shape {codes.shape}"
        )
    return Found(names[0], codes.shape, f"{word(codes.dtype)} (scaled)", Scaled(block))


def _of_four_bits(name: str, state: str, raws: Raws) -> Found:
    shape, _, way = four_bits(name, state, raws)
    return Found(name, shape, f"{state.rpartition('__')[2]} (bitsandbytes)", way)


def _words(stem: str, raws: Raws, settings: Mapping[str, Any]) -> Group:
    names = _present((stem + part for part in ("qweight", "qzeros", "scales", "g_idx")), raws)
    return Group(names, lambda: _of_words(stem, raws, settings))


def _of_words(stem: str, raws: Raws, settings: Mapping[str, Any]) -> Found:
    """Codes in words: AWQ packs them along rows, GPTQ down columns, which their shapes tell."""
    parts = [raws.get(stem + part) for part in ("qweight", "qzeros", "scales")]
    words, zeros, scales = parts
    if words is None or zeros is None or scales is None:
        raise Refusal("its qzeros or scales are not in the file")
    order = raws.get(f"{stem}g_idx")
    layout = str(settings.get("checkpoint_format") or settings.get("version") or "").lower()
    integers = words.dtype == zeros.dtype == torch.int32 and scales.dtype in FLOATS
    if not integers or layout not in ("", "gptq", "gptq_v2", "gemm"):
        raise Refusal(f"the layout `{printable(layout)}` of its words is not known")
    shapes = (words.shape, zeros.shape, scales.shape)
    if _is_awq(*shapes) and order is None:
        shape = (scales.shape[1], words.shape[0])
        return Found(f"{stem}weight", shape, "int4 (AWQ)", Awq())
    inner = None if order is None else prod(order.shape)
    bits = bits_of(*shapes, inner)
    if bits is None or (order is not None and order.dtype not in (torch.int32, torch.int64)):
        raise Refusal(f"shapes {shapes} of its words, zeros and scales fit no layout that is known")
    added = 0 if layout == "gptq_v2" else 1
    shape = (scales.shape[1], words.shape[0] * WORD // bits if inner is None else inner)
    return Found(f"{stem}weight", shape, f"int{bits} (GPTQ)", Gptq(bits, added))


def _is_awq(words: Shape, zeros: Shape, scales: Shape) -> bool:
    if not all(len(s) == 2 for s in (words, zeros, scales)) or not scales[0]:
        return False
    packed = scales[1] == 8 * words[1] and zeros == (scales[0], words[1])
    return packed and words[0] % scales[0] == 0
