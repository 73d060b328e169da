"""Files of llama.cpp: metadata, a list of tensors, and their numbers in blocks.

The header is read here, the blocks by the package `gguf`. Its `GGUFReader` takes 7 s and 500 MB
for a vocabulary of 256 000 words, this reader 0.2 s and 3 MB; a header of 250 bytes that declares
an array of 2^40 numbers fills the memory of the first; and addresses have to be read by ranges
(gguf 0.19: `benchmarks/RESULTS.md`, "Readers of checkpoints").

Source:
    github.com/ggml-org/ggml, docs/gguf.md.
"""

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from sigmascope.checkpoints.arrays import (
    FLOATS,
    Array,
    InFile,
    require_apart,
    require_shape,
    word,
)
from sigmascope.checkpoints.decoders import Decoder, Plain, Shape
from sigmascope.checkpoints.locations import Stream, digest
from sigmascope.checkpoints.quantization import why_not
from sigmascope.checkpoints.tensors import FileFormat, LeftOut, Stored
from sigmascope.core.guard import Refusal, printable, shown

MAGIC = b"GGUF"
VERSIONS = (2, 3)
SCALARS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q"}
SCALARS |= {12: "d"}
TEXT, ARRAY = 8, 9
NESTED = 4  # arrays within one another
KEPT = 256  # entries of an array that are kept; vocabularies are longer
ENTRIES = 100_000  # of metadata
TENSORS = 1_000_000
DIMENSIONS = 4
WITHIN = 1 << 22  # numbers that are decoded at once: what lies between takes ten times their bytes
PLAINS = {
    0: torch.float32,
    1: torch.float16,
    24: torch.int8,
    25: torch.int16,
    26: torch.int32,
    27: torch.int64,
    28: torch.float64,
    30: torch.bfloat16,
}


class Parsed(NamedTuple):
    """What a file declares: its tensors, what is left out, its metadata, a hash of the header."""

    tensors: list[Stored]
    left_out: list[LeftOut]
    config: dict[str, Any]
    hash: str


class TensorInfo(NamedTuple):
    """One line of the list of tensors."""

    name: str
    shape: tuple[int, ...]
    kind: int
    offset: int


@dataclass(frozen=True, slots=True)
class Blocks(Decoder):
    """Rows of blocks, each decoded into float32.

    Attributes:
        kind: The number that ggml has for it.
    """

    kind: int

    def rows(self, arrays: Sequence[Array], shape: Shape, start: int, stop: int) -> Tensor:
        from gguf import GGMLQuantizationType, dequantize

        kind = GGMLQuantizationType(self.kind)
        alone = len(shape) == 1  # a vector: its rows are numbers, so that blocks are cut
        whole = arrays[0].all()[None] if alone else arrays[0].rows(start, stop)
        count = prod(whole.shape[:-1])
        blocks = whole.numpy().reshape(count, whole.shape[-1])  # `gguf` takes 16 rows at a time
        out = np.empty((count, shape[-1]), dtype=np.float32)
        step = max(WITHIN // max(shape[-1], 1), 1)
        with np.errstate(all="ignore"):  # scales that are not finite come as they are
            for at in range(0, count if out.size else 0, step):
                out[at : at + step] = dequantize(blocks[at : at + step], kind)
        numbers = torch.from_numpy(out)
        if alone:
            return numbers[0, start:stop].clone()
        return numbers.reshape(stop - start, *shape[1:])


def read_gguf(location: str) -> Parsed:
    """The tensors and metadata of a file; no numbers are read.

    Args:
        location: A file or an address.

    Raises:
        Refusal: If it is no GGUF of a version that is read, or declares what cannot be: more than
            the file has, names twice, shapes that are none, numbers that are not aligned, outside
            of the file or within one another; or if it has blocks and `gguf` is not installed.
    """
    header = _Header(location)
    entries, config = header.content()
    align = config.get("general.alignment", 32)
    if type(align) is not int or align < 1 or align & (align - 1) or align > 1 << 30:
        raise _damaged(location, f"its alignment is {shown(align)}")
    base = (header.at + align - 1) // align * align
    tensors, left, spans = [], [], []
    for entry in entries:
        # the kind of a tensor in words, how it is decoded, and how its bytes lie
        shape, decoder = entry.shape, Plain()
        if (dtype := PLAINS.get(entry.kind)) is not None:
            kind = word(dtype)
        else:
            try:
                from gguf import GGML_QUANT_SIZES, GGMLQuantizationType, dequantize
            except ImportError as missing:
                raise Refusal(
                    f"`{printable(location)}` has numbers in blocks (`{shown(entry.name)}`), which "
                    "the package gguf decodes: `pip install 'sigmascope[gguf]'`."
                ) from missing
            try:
                of = GGMLQuantizationType(entry.kind)
                numbers, size = GGML_QUANT_SIZES[of]
                dequantize(np.zeros((1, size), dtype=np.uint8), of)
            except (ValueError, KeyError, NotImplementedError):  # how gguf says: it cannot
                named = next((k.name for k in GGMLQuantizationType if k == entry.kind), None)
                named = named or f"type {entry.kind} of ggml"
                why = f"{named}: blocks whose layout gguf does not decode; requantise to Q8_0."
                left.append(LeftOut(entry.name, why))
                continue
            if not shape or shape[-1] % numbers:
                what = f"`{shown(entry.name)}` has rows that are no whole blocks of {of.name}"
                raise _damaged(location, what)
            kind, decoder, dtype = of.name, Blocks(entry.kind), torch.uint8
            shape = (*shape[:-1], shape[-1] // numbers * size)
        if entry.offset % align:
            raise _damaged(location, f"`{shown(entry.name)}` is not aligned")
        array = InFile(location, base + entry.offset, dtype, shape)
        if array.bytes and array.offset + array.bytes > header.size:
            raise _damaged(
                location, f"`{shown(entry.name)}` lies outside of the file, or it was cut"
            )
        spans.append((array.offset, array.offset + array.bytes, entry.name))
        if isinstance(decoder, Plain) and dtype not in FLOATS:
            left.append(LeftOut(entry.name, why_not(dtype)))
        else:
            tensors.append(Stored.of(entry.name, entry.shape, kind, decoder, {entry.name: array}))
    require_apart(spans, location)
    return Parsed(tensors, left, config, digest(repr(entries), repr(config)))


def _damaged(location: str, why: str) -> Refusal:
    return Refusal(f"`{printable(location)}` cannot be read, for {why}: it is damaged.")


class _Header(Stream):
    """Little-endian values one after another."""

    def content(self) -> tuple[list[TensorInfo], dict[str, Any]]:
        """The list of tensors, and the metadata."""
        if self.size < 24 or self.take(4) != MAGIC:
            raise Refusal(
                f"`{printable(self.location)}` is no GGUF file: it does not begin as one."
            )
        version = self.value("I")
        if version not in VERSIONS:
            raise Refusal(
                f"`{printable(self.location)}` must be GGUF of version 2 or 3, little-endian, got "
                f"version {version}: convert it with llama.cpp."
            )
        tensors, entries = self.value("Q"), self.value("Q")
        if tensors > TENSORS or entries > ENTRIES:
            raise self.damaged(f"it declares {tensors} tensors and {entries} entries of metadata")
        config: dict[str, Any] = {}
        for _ in range(entries):
            key = self.text()
            if key in config:
                raise self.damaged(f"it declares `{shown(key)}` twice")
            config[key] = self.metadata(self.value("I"), 0)
        found = [self.entry() for _ in range(tensors)]
        seen: set[str] = set()
        for entry in found:
            if entry.name in seen:
                raise self.damaged(f"it declares `{shown(entry.name)}` twice")
            seen.add(entry.name)
        return found, config

    def metadata(self, kind: int, depth: int) -> Any:
        """One value of the metadata; of a long array its length in words."""
        if kind in SCALARS:
            return self.value(SCALARS[kind])
        if kind == TEXT:
            return self.text()
        if kind != ARRAY or depth > NESTED:
            raise self.damaged(f"it has metadata of the unknown type {kind}")
        inner, count = self.value("I"), self.value("Q")
        self.require(count)  # each takes a byte or more, so that a lie ends here
        if inner in SCALARS and count > KEPT:
            self.skip(count * struct.calcsize(f"<{SCALARS[inner]}"))
            return f"{count} numbers"
        if inner == TEXT and count > KEPT:
            for _ in range(count):
                self.skip(self.value("Q"))
            return f"{count} texts"
        kept = []
        for _ in range(count):
            value = self.metadata(inner, depth + 1)
            if len(kept) < KEPT:
                kept.append(value)
        return kept

    def entry(self) -> TensorInfo:
        name, count = self.text(), self.value("I")
        if count > DIMENSIONS:
            raise self.damaged(f"`{shown(name)}` has {count} dimensions")
        sizes = [self.value("Q") for _ in range(count)]
        kind, offset = self.value("I"), self.value("Q")
        shape = require_shape(sizes[::-1], f"`{shown(name)}` in `{printable(self.location)}`")
        return TensorInfo(name, shape, kind, offset)

    def take(self, count: int) -> bytes:
        self.require(count)
        return self.read(count)

    def skip(self, count: int) -> None:
        self.require(count)
        self.at += count

    def value(self, layout: str) -> Any:
        return struct.unpack(f"<{layout}", self.take(struct.calcsize(f"<{layout}")))[0]

    def text(self) -> str:
        """A text, after its length; bytes that are no UTF-8 are written out."""
        return self.take(self.value("Q")).decode("utf-8", "backslashreplace")

    def damaged(self, why: str) -> Refusal:
        return _damaged(self.location, why)


FORMAT = FileFormat(
    "GGUF",
    (".gguf",),
    lambda begins, name: begins[:4] == MAGIC or name.endswith(".gguf"),
    tensors=read_gguf,
    parts="-of-",
)
