"""Headers of .safetensors files: a length, a JSON, and then the numbers.

Source:
    huggingface.co/docs/safetensors, "Format".
"""

import json
from math import prod
from typing import Any, NamedTuple

import torch

from sigmascope import gate
from sigmascope.gate import Refusal, printable
from sigmascope.sources.refusals import LONG, told
from sigmascope.sources.stored.places import digest, read_bytes, size_at
from sigmascope.sources.stored.raws import Range, Raw, require_shape
from sigmascope.sources.stored.tensors import LeftOut

LONGEST = 100_000_000  # bytes of a header, as the format allows
WEIGHT = 25  # bytes in memory that a byte of JSON may become: a list in a list takes three
KINDS = {
    "BOOL": "bool",
    "U8": "uint8",
    "I8": "int8",
    "F8_E4M3": "float8_e4m3fn",
    "F8_E5M2": "float8_e5m2",
    "F8_E4M3FNUZ": "float8_e4m3fnuz",
    "F8_E5M2FNUZ": "float8_e5m2fnuz",
    "F8_E8M0": "float8_e8m0fnu",
    "U16": "uint16",
    "I16": "int16",
    "F16": "float16",
    "BF16": "bfloat16",
    "U32": "uint32",
    "I32": "int32",
    "F32": "float32",
    "U64": "uint64",
    "I64": "int64",
    "F64": "float64",
    "C64": "complex64",
}
DTYPES = {k: d for k, v in KINDS.items() if (d := getattr(torch, v, None)) is not None}


class Header(NamedTuple):
    """What a file declares.

    Attributes:
        raws: By name, in the order of the header.
        left_out: Of kinds of number that are not known here.
        hash: Of its bytes.
    """

    raws: dict[str, Raw]
    left_out: list[LeftOut]
    hash: str


def shown(text: object) -> str:
    """A name from a header for a sentence: in one line, and not longer than a screen has."""
    name = str(text)
    return printable(name if len(name) <= LONG else name[:LONG] + "…")


def read_header(place: str) -> Header:
    """The header of a .safetensors file; its numbers are not read.

    Args:
        place: A file or an address.

    Raises:
        Refusal: If there is no such file, or if what it declares cannot be: a header beyond the
            file or the format's bound, names twice, shapes that are none, numbers outside of the
            file, of another size than their shape or within one another.
    """
    size = size_at(place)
    length = _length(place, size)
    gate.require_room(WEIGHT * length, f"The header of `{printable(place)}`")
    data = bytes(read_bytes(place, 8, length).numpy())
    raws, left, spans = {}, [], []
    for name, entry in _parsed(data, place).items():
        if name == "__metadata__":
            continue
        span = _span(name, entry, place, size - 8 - length)
        kind, shape = entry["dtype"], require_shape(entry["shape"], _whose(name, place))
        spans.append((*span, name))
        dtype = DTYPES.get(kind)
        if dtype is None:
            left.append(LeftOut(name, f"{shown(kind)}: a kind of number that is not read here."))
            continue
        _require_size(prod(shape) * dtype.itemsize, span, name, place)
        raws[name] = Range(place, 8 + length + span[0], dtype, shape)
    _require_apart(spans, place)
    return Header(raws, left, digest(data))


def _length(place: str, size: int) -> int:
    if size < 8:
        raise Refusal(f"`{printable(place)}` must begin with a header, got {size} bytes in all.")
    length = int.from_bytes(bytes(read_bytes(place, 0, 8).numpy()), "little")
    if length > LONGEST or length > size - 8:
        raise Refusal(
            f"`{printable(place)}` is no .safetensors file, or not all of it: it declares a header "
            f"of {length} bytes and has {size - 8} after its first 8; headers are of at most "
            f"{LONGEST}. Fetch it again."
        )
    return length


def _parsed(data: bytes, place: str) -> dict[str, Any]:
    def once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        found = dict(pairs)
        if len(found) != len(pairs):
            seen = set()
            twice = next(n for n, _ in pairs if n in seen or seen.add(n))
            raise Refusal(f"`{printable(place)}` declares `{shown(twice)}` twice: it is damaged.")
        return found

    try:
        header = json.loads(data, object_pairs_hook=once)
    except Refusal:
        raise
    except (ValueError, RecursionError) as error:
        raise Refusal(
            f"`{printable(place)}` is no .safetensors file: its header is not valid JSON "
            f"({told(error)})."
        ) from error
    if not isinstance(header, dict):
        raise Refusal(f"`{printable(place)}` is no .safetensors file: its header is no object.")
    return header


def _whose(name: str, place: str) -> str:
    return f"`{shown(name)}` in `{printable(place)}`"


def _span(name: str, entry: Any, place: str, size: int) -> tuple[int, int]:
    """Where the numbers of a tensor begin and end, within `size` bytes."""
    fields = entry if isinstance(entry, dict) else {}
    ends = fields.get("data_offsets")
    if not isinstance(fields.get("dtype"), str) or not isinstance(fields.get("shape"), list):
        raise Refusal(f"{_whose(name, place)} must have a dtype and a shape: the file is damaged.")
    if not isinstance(ends, list) or len(ends) != 2 or not all(type(e) is int for e in ends):
        raise Refusal(f"{_whose(name, place)} must have two `data_offsets`: the file is damaged.")
    if not 0 <= ends[0] <= ends[1] <= size:
        raise Refusal(
            f"{_whose(name, place)} must lie within the {size} bytes after the header, got bytes "
            f"{shown(ends[0])} to {shown(ends[1])}: the file is damaged or was cut; fetch it again."
        )
    return ends[0], ends[1]


def _require_size(needed: int, span: tuple[int, int], name: str, place: str) -> None:
    if needed != span[1] - span[0]:
        raise Refusal(
            f"{_whose(name, place)} must have {needed} bytes by its shape and dtype, got "
            f"{span[1] - span[0]}: the file is damaged."
        )


def _require_apart(spans: list[tuple[int, int, str]], place: str) -> None:
    """Refuse tensors that lie within one another."""
    before, whose = 0, ""
    for start, end, name in sorted(s for s in spans if s[0] < s[1]):
        if start < before:
            raise Refusal(
                f"{_whose(name, place)} begins within `{shown(whose)}`: the file is damaged."
            )
        before, whose = end, name
