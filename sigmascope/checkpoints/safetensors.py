"""Headers of .safetensors files: a length, a JSON, and then the numbers.

The package of that name reads files of this machine only, which it maps, and refuses a file for one
kind of number that it does not know: see `locations.py`.

Source:
    huggingface.co/docs/safetensors, "Format".
"""

import json
from math import prod
from typing import Any, NamedTuple

import torch

from sigmascope.checkpoints.arrays import Array, InFile, require_apart, require_shape
from sigmascope.checkpoints.locations import digest, read_bytes, size_of
from sigmascope.checkpoints.tensors import FileFormat, LeftOut
from sigmascope.core import guard
from sigmascope.core.guard import Refusal, printable, shown, told

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
        arrays: By name, in the order of the header.
        left_out: Of kinds of number that are not known here.
        hash: Of its bytes.
    """

    arrays: dict[str, Array]
    left_out: list[LeftOut]
    hash: str


def read_header(location: str) -> Header:
    """The header of a .safetensors file; its numbers are not read.

    Args:
        location: A file or an address.

    Raises:
        Refusal: If there is no such file, or if what it declares cannot be: a header beyond the
            file or the format's bound, names twice, shapes that are none, numbers outside of the
            file, of another size than their shape or within one another.
    """
    size = size_of(location)
    if size < 8:
        raise Refusal(f"`{printable(location)}` must begin with a header, got {size} bytes in all.")
    length = int.from_bytes(read_bytes(location, 0, 8), "little")
    if length > LONGEST or length > size - 8:
        raise Refusal(
            f"`{printable(location)}` is no .safetensors file, or not all of it: it declares a "
            f"header of {length} bytes and has {size - 8} after its first 8; headers are of at "
            f"most {LONGEST}. Fetch it again."
        )
    guard.require_room(WEIGHT * length, f"The header of `{printable(location)}`")
    data = read_bytes(location, 8, length)
    first, body = 8 + length, size - 8 - length
    arrays, left, spans = {}, [], []

    def once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        found = dict(pairs)
        if len(found) != len(pairs):
            seen = set()
            twice = next(n for n, _ in pairs if n in seen or seen.add(n))
            raise Refusal(
                f"`{printable(location)}` declares `{shown(twice)}` twice: it is damaged."
            )
        return found

    try:
        header = json.loads(data, object_pairs_hook=once)
    except Refusal:
        raise
    except (ValueError, RecursionError) as error:
        raise Refusal(
            f"`{printable(location)}` is no .safetensors file: its header is not valid JSON "
            f"({told(error)})."
        ) from error
    if not isinstance(header, dict):
        raise Refusal(f"`{printable(location)}` is no .safetensors file: its header is no object.")
    for name, entry in header.items():
        if name == "__metadata__":
            continue
        whose = f"`{shown(name)}` in `{printable(location)}`"
        kind, shape, ends = (
            entry.get(k) if isinstance(entry, dict) else None
            for k in ("dtype", "shape", "data_offsets")
        )
        if not isinstance(kind, str) or not isinstance(shape, list):
            raise Refusal(f"{whose} must have a dtype and a shape: the file is damaged.")
        if not isinstance(ends, list) or len(ends) != 2 or not all(type(e) is int for e in ends):
            raise Refusal(f"{whose} must have two `data_offsets`: the file is damaged.")
        start, end = ends
        if not 0 <= start <= end <= body:
            raise Refusal(
                f"{whose} must lie within the {body} bytes after the header, got bytes "
                f"{shown(start)} to {shown(end)}: the file is damaged or was cut; fetch it again."
            )
        shape = require_shape(shape, whose)
        spans.append((start, end, name))
        dtype = DTYPES.get(kind)
        if dtype is None:
            left.append(LeftOut(name, f"{shown(kind)}: a kind of number that is not read here."))
            continue
        if prod(shape) * dtype.itemsize != end - start:
            raise Refusal(
                f"{whose} must have {prod(shape) * dtype.itemsize} bytes by its shape and dtype, "
                f"got {end - start}: the file is damaged."
            )
        arrays[name] = InFile(location, first + start, dtype, shape)
    require_apart(spans, location)
    return Header(arrays, left, digest(data))


FORMAT = FileFormat(
    "safetensors",
    (".safetensors",),
    lambda begins, name: begins[8:9] == b"{" or name.endswith(".safetensors"),
    arrays=read_header,
    weights="model.safetensors",
)
