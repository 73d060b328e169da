"""Files of llama.cpp: metadata, a list of tensors, and their numbers in blocks.

Source:
    github.com/ggml-org/ggml, docs/gguf.md.
"""

import struct
from typing import Any, NamedTuple

import torch

from sigmascope.gate import Refusal, printable
from sigmascope.sources.stored.blocks import KINDS, Blocks
from sigmascope.sources.stored.cursors import Cursor
from sigmascope.sources.stored.groups import PLAIN, Found, stored, why_not
from sigmascope.sources.stored.headers import shown
from sigmascope.sources.stored.places import digest
from sigmascope.sources.stored.raws import FLOATS, Range, require_shape
from sigmascope.sources.stored.tensors import LeftOut, Stored

MAGIC = b"GGUF"
VERSIONS = (2, 3)
SCALARS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q"}
SCALARS |= {12: "d"}
WIDTHS = {kind: struct.calcsize(f"<{layout}") for kind, layout in SCALARS.items()}
TEXT, ARRAY = 8, 9
NESTED = 4  # arrays within one another
KEPT = 256  # entries of an array that are kept; vocabularies are longer
ENTRIES = 100_000  # of metadata
TENSORS = 1_000_000
DIMENSIONS = 4
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
OTHERS = {9: "Q8_1", 16: "IQ2_XXS", 17: "IQ2_XS", 18: "IQ3_XXS", 19: "IQ1_S", 21: "IQ3_S"}
OTHERS |= {22: "IQ2_S", 29: "IQ1_M", 34: "TQ1_0", 35: "TQ2_0", 40: "NVFP4"}


class Parsed(NamedTuple):
    """What a file declares: its tensors, what is left out, its metadata, a hash of the header."""

    tensors: list[Stored]
    left_out: list[LeftOut]
    config: dict[str, Any]
    hash: str


class Entry(NamedTuple):
    """One line of the list of tensors."""

    name: str
    shape: tuple[int, ...]
    kind: int
    offset: int


def read_gguf(place: str) -> Parsed:
    """The tensors and metadata of a file; no numbers are read.

    Args:
        place: A file or an address.

    Raises:
        Refusal: If it is no GGUF of a version that is read, or declares what cannot be: more than
            the file has, names twice, shapes that are none, numbers that are not aligned, outside
            of the file or within one another.
    """
    cursor = Cursor(place)
    entries, config = _header(cursor)
    align = config.get("general.alignment", 32)
    if type(align) is not int or align < 1 or align & (align - 1) or align > 1 << 30:
        raise _damaged(place, f"its alignment is {shown(align)}")
    base = -(-cursor.at // align) * align
    tensors, left, spans = [], [], []
    for entry in entries:
        made = _tensor(entry, place, base)
        if isinstance(made, LeftOut):
            left.append(made)
            continue
        if entry.offset % align:
            raise _damaged(place, f"`{shown(entry.name)}` is not aligned")
        raw, found = made
        if raw.bytes and raw.offset + raw.bytes > cursor.size:
            raise _damaged(place, f"`{shown(entry.name)}` lies outside of the file, or it was cut")
        spans.append((raw.offset, raw.offset + raw.bytes, entry.name))
        if found is None:
            left.append(LeftOut(entry.name, why_not(raw.dtype)))
        else:
            tensors.append(stored(found, (entry.name,), (raw,)))
    _require_apart(spans, place)
    said = digest(repr(entries), repr(config))
    return Parsed(tensors, left, config, said)


def _damaged(place: str, why: str) -> Refusal:
    return Refusal(f"`{printable(place)}` cannot be read, for {why}: it is damaged.")


def _header(cursor: Cursor) -> tuple[list[Entry], dict[str, Any]]:
    place = cursor.place
    if cursor.size < 24 or cursor.take(4) != MAGIC:
        raise Refusal(f"`{printable(place)}` is no GGUF file: it does not begin as one.")
    version = cursor.whole("I")
    if version not in VERSIONS:
        raise Refusal(
            f"`{printable(place)}` must be GGUF of version 2 or 3, little-endian, got version "
            f"{version}: convert it with llama.cpp."
        )
    tensors, entries = cursor.whole("Q"), cursor.whole("Q")
    if tensors > TENSORS or entries > ENTRIES:
        raise _damaged(place, f"it declares {tensors} tensors and {entries} entries of metadata")
    config: dict[str, Any] = {}
    for _ in range(entries):
        key = cursor.text()
        if key in config:
            raise _damaged(place, f"it declares `{shown(key)}` twice")
        config[key] = _value(cursor, cursor.whole("I"), 0)
    found = [_entry(cursor) for _ in range(tensors)]
    seen: set[str] = set()
    twice = next((e.name for e in found if e.name in seen or seen.add(e.name)), None)
    if twice is not None:
        raise _damaged(place, f"it declares `{shown(twice)}` twice")
    return found, config


def _value(cursor: Cursor, kind: int, depth: int) -> Any:
    """One value of the metadata; of a long array its length in words."""
    if kind in SCALARS:
        return cursor.values(SCALARS[kind])[0]
    if kind == TEXT:
        return cursor.text()
    if kind != ARRAY or depth > NESTED:
        raise _damaged(cursor.place, f"it has metadata of the unknown type {kind}")
    inner, count = cursor.whole("I"), cursor.whole("Q")
    cursor.require(count)  # each takes a byte or more, so that a lie ends here
    if inner in SCALARS and count > KEPT:
        cursor.skip(count * WIDTHS[inner])
        return f"{count} numbers"
    kept = []
    for _ in range(count):
        if inner == TEXT and count > KEPT:
            cursor.skip(cursor.whole("Q"))
            continue
        value = _value(cursor, inner, depth + 1)
        if len(kept) < KEPT:
            kept.append(value)
    return f"{count} texts" if inner == TEXT and count > KEPT else kept


def _entry(cursor: Cursor) -> Entry:
    name, count = cursor.text(), cursor.whole("I")
    if count > DIMENSIONS:
        raise _damaged(cursor.place, f"`{shown(name)}` has {count} dimensions")
    sizes = [int(n) for n in cursor.values(f"{count}Q")]
    kind, offset = cursor.whole("I"), cursor.whole("Q")
    shape = require_shape(sizes[::-1], f"`{shown(name)}` in `{printable(cursor.place)}`")
    return Entry(name, shape, kind, offset)


def _tensor(entry: Entry, place: str, base: int) -> tuple[Range, Found | None] | LeftOut:
    """Where a tensor lies, and what it is: None for whole numbers."""
    name, shape, offset = entry.name, entry.shape, base + entry.offset
    if (dtype := PLAINS.get(entry.kind)) is not None:
        word = str(dtype).removeprefix("torch.")
        found = Found(name, shape, word, PLAIN) if dtype in FLOATS else None
        return Range(place, offset, dtype, shape), found
    kind = KINDS.get(entry.kind)
    if kind is None:
        known = OTHERS.get(entry.kind, f"type {entry.kind} of ggml")
        return LeftOut(name, f"{known}: blocks whose layout is not read here; requantise to Q8_0.")
    if not shape or shape[-1] % kind.numbers:
        raise _damaged(place, f"`{shown(name)}` has rows that are no whole blocks of {kind.name}")
    row = shape[-1] // kind.numbers * kind.bytes
    raw = Range(place, offset, torch.uint8, (*shape[:-1], row))
    return raw, Found(name, shape, kind.name, Blocks(entry.kind))


def _require_apart(spans: list[tuple[int, int, str]], place: str) -> None:
    before, whose = 0, ""
    for start, end, name in sorted(s for s in spans if s[0] < s[1]):
        if start < before:
            raise _damaged(place, f"`{shown(name)}` begins within `{shown(whose)}`")
        before, whose = end, name
