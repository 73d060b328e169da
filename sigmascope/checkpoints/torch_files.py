"""Files of `torch.save`, read as headers: where in the file each tensor lies.

The file is a zip whose `data.pkl` describes tensors and whose other members are their storages, not
packed; or, of torch before 1.6, a row of pickles with the storages after them. So a tensor is a
range of the file, and neither torch nor anything in the file is run. Why not `torch.load`: see
`pickles.py`.
"""

import io
import zipfile
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from math import prod
from struct import Struct
from typing import Any

import torch

from sigmascope.checkpoints.arrays import (
    LARGEST,
    Array,
    InFile,
    contiguous,
    extent,
    require_shape,
)
from sigmascope.checkpoints.locations import Stream, is_remote, read_bytes
from sigmascope.checkpoints.pickles import SEVERAL, WEIGHT, Name, Note, read_pickle
from sigmascope.checkpoints.state_dicts import state_dict
from sigmascope.checkpoints.tensors import FileFormat, LeftOut
from sigmascope.core import guard
from sigmascope.core.guard import Refusal, printable, told

MEMBERS = 1_000_000
LOCAL = Struct("<4s5H3I2H")  # the header before a member
MAGIC = 0x1950A86A20F9469CFC6C  # of files of older torch
STORAGES = {
    "DoubleStorage": torch.float64,
    "FloatStorage": torch.float32,
    "HalfStorage": torch.float16,
    "BFloat16Storage": torch.bfloat16,
    "LongStorage": torch.int64,
    "IntStorage": torch.int32,
    "ShortStorage": torch.int16,
    "CharStorage": torch.int8,
    "ByteStorage": torch.uint8,
    "BoolStorage": torch.bool,
    "ComplexFloatStorage": torch.complex64,
    "ComplexDoubleStorage": torch.complex128,
    "UntypedStorage": torch.uint8,
}


@dataclass(frozen=True, slots=True)
class Storage:
    """Numbers in a row: where they begin, how many bytes, and of which kind."""

    location: str
    offset: int
    size: int
    dtype: torch.dtype


def read_torch(location: str, start: int = 0, size: int | None = None) -> Any:
    """What was saved in a file, or in a range of it: an `InFile` for every tensor, else notes.

    Raises:
        Refusal: If it is damaged, a program, compressed, or of another byte order.
    """
    stream = Stream(location, start, size)
    if not stream.size:
        raise Refusal(f"`{printable(location)}` is empty: it has no bytes. Save it again.")
    try:
        if stream.read(4) == b"PK\x03\x04":
            return _archive(stream)
        return _pickles(Stream(location, start, size, weight=WEIGHT))
    except Refusal:
        raise
    except Exception as error:  # of bytes that are no zip the reader raises anything
        raise Refusal(
            f"`{printable(location)}` is damaged or not a file of `torch.save` ({told(error)}): "
            "save it again, e.g. `torch.save(model.state_dict(), path)` for weights."
        ) from error


def _archive(stream: Stream) -> Any:
    place = f"`{printable(stream.location)}`"
    file: Any = stream
    with zipfile.ZipFile(file) as archive:
        members = {m.filename: m for m in archive.infolist()}
        named = [n for n in members if n == "data.pkl" or n.endswith("/data.pkl")]
        if len(named) != 1 or len(members) > MEMBERS:
            what = "a zip, but not of `torch.save`"
            advice = "save weights with `torch.save(model.state_dict(), path)`"
            if members and all(n.endswith(".npy") for n in members):
                what = "an archive of NumPy"
                advice = "save it with `safetensors.numpy.save_file(dict(numpy.load(path)), name)`"
            elif any(n.endswith("archive_format") for n in members):
                what, advice = "a program of `torch.export`", "save its `state_dict`"
            raise Refusal(f"{place} is {what}, which is not read: {advice}.")
        prefix = named[0].removesuffix("data.pkl")
        if f"{prefix}constants.pkl" in members:
            raise Refusal(
                f"{place} is a program of TorchScript, which is not run: save its `state_dict()` "
                "with `torch.save`."
            )
        if any(m.compress_type != zipfile.ZIP_STORED for m in members.values()):
            raise Refusal(
                f"{place} is compressed, as `torch.save` does not do, so that its tensors are no "
                "ranges of it: load it and save it again."
            )
        order = members.get(f"{prefix}byteorder")
        if order is not None and archive.open(order).read(16) != b"little":
            raise Refusal(f"{place} has bytes in an order that is not read.")
        described = members[f"{prefix}data.pkl"]
        guard.require_room(WEIGHT * described.file_size, f"The pickle in {place}")
        with archive.open(described) as file:
            data = io.BytesIO(file.read(described.file_size))
    offsets: dict[str, int] = {}

    def storage(pid: Any) -> Storage | Note:
        kind, key, count, dtype = _declared(pid)
        member = members.get(f"{prefix}data/{key}")
        if member is None:
            raise Refusal("a storage of it is not in the file")
        if dtype is None:
            return Note(kind.name, ())
        if count * dtype.itemsize > member.file_size:
            raise Refusal("a storage of it has fewer bytes than it declares")
        if key not in offsets:
            # where the bytes of a member begin, which only the header before them says
            at = stream.start + member.header_offset
            mark, *_, name, extra = LOCAL.unpack(read_bytes(stream.location, at, LOCAL.size))
            first = at + LOCAL.size + name + extra
            if mark != b"PK\x03\x04" or first + member.file_size > stream.start + stream.size:
                raise Refusal("a storage of it lies outside of the file")
            offsets[key] = first
        return Storage(stream.location, offsets[key], count * dtype.itemsize, dtype)

    return read_pickle(data, stream.location, builds=BUILDS, storage=storage)


def _pickles(stream: Stream) -> Any:
    """A file of older torch: what it holds is read twice, for its storages lie behind it."""
    begins = None
    read = partial(read_pickle, stream, stream.location, builds=BUILDS)
    with suppress(Refusal):  # of whatever else the file may be
        begins = read() == MAGIC and read() == 1001 and read()
    if not isinstance(begins, dict) or begins.get("little_endian") is not True:
        raise Refusal(
            f"`{printable(stream.location)}` is damaged or not a file of `torch.save`: save it "
            "again, e.g. `torch.save(model.state_dict(), path)` for weights."
        )
    first, sizes, known = stream.tell(), {}, {}

    def storage(pid: Any) -> Any:
        if isinstance(pid, tuple) and len(pid) == 4 and pid[0] == "module":
            return pid[1]  # of a layer that was saved whole, with its source
        kind, key, count, dtype = _declared(pid)
        if dtype is None:
            raise Refusal(f"it has a `{printable(kind.name)}`, whose size is not known")
        size = count * dtype.itemsize
        if sizes.setdefault(key, (count, size)) != (count, size):
            raise Refusal("it declares a storage in two ways")
        return Storage(stream.location, known.get(key, 0), size, dtype)

    read(storage=storage)
    keys = read()
    at = stream.tell()
    for key in keys if isinstance(keys, list) and set(keys) == set(sizes) else ():
        count, size = sizes[key]
        if int.from_bytes(read_bytes(stream.location, at, 8), "little") != count:
            break
        known[key] = at + 8
        at += 8 + size
    if len(known) != len(sizes) or at > stream.size:
        raise Refusal(
            f"`{printable(stream.location)}` is damaged or was cut: not all of its storages are in "
            "the file."
        )
    stream.seek(first)
    return read(storage=storage)


def _declared(pid: Any) -> tuple[Name, str, int, torch.dtype | None]:
    """Class, key, numbers and their kind of a storage; no kind where torch has quantised them."""
    if not isinstance(pid, tuple) or len(pid) not in (5, 6) or pid[0] != "storage":
        raise Refusal("it refers to storages in a way that is not known")
    _, kind, key, _, count, *view = pid
    if not isinstance(kind, Name) or not isinstance(key, str) or type(count) is not int:
        raise Refusal("a storage of it is not in the file")
    if view not in ([], [None]):
        raise Refusal("it has views of storages as torch before 0.4 saved them")
    if count < 0 or count > LARGEST:
        raise Refusal("a storage of it has fewer bytes than it declares")
    return kind, key, count, STORAGES.get(kind.name.rpartition(".")[2])


def _tensor(storage: Any, offset: Any, size: Any, stride: Any, *rest: Any) -> Any:
    """`torch._utils._rebuild_tensor_v2`, without a tensor."""
    if not isinstance(storage, Storage):
        return storage if isinstance(storage, Note) else Note("a tensor of another device", ())
    if len(rest) > 2 and rest[2]:
        return Note("a conjugate or negative view", ())
    return _in_storage(storage, storage.dtype, offset, size, stride)


def _typed(storage: Any, offset: Any, size: Any, stride: Any, *rest: Any) -> Any:
    """`torch._utils._rebuild_tensor_v3`, whose kind of number is told apart from the storage."""
    dtype = dtype_of(rest[2]) if len(rest) > 2 else None
    if not isinstance(storage, Storage) or dtype is None:
        return Note("a tensor of a kind of number that this torch does not have", ())
    return _in_storage(storage, dtype, offset, size, stride)


def dtype_of(named: Any) -> torch.dtype | None:
    """The kind of number that a pickle names; None where this torch has none of the name."""
    last = named.name.rpartition(".")[2] if isinstance(named, Name) else ""
    dtype = getattr(torch, last, None)
    return dtype if isinstance(dtype, torch.dtype) else None


def _in_storage(
    storage: Storage, dtype: torch.dtype, offset: Any, size: Any, stride: Any
) -> InFile:
    shape = require_shape(size, "a tensor of it")
    steps: tuple[Any, ...] = tuple(stride) if isinstance(stride, tuple) else (None,)
    fits = len(shape) == len(steps) and all(type(s) is int and 0 <= s < LARGEST for s in steps)
    fits = fits and type(offset) is int and offset >= 0
    reach = (offset + extent(shape, steps)) * dtype.itemsize if fits and prod(shape) else 0
    if not fits or reach > storage.size:
        raise Refusal("a tensor of it lies outside of its storage")
    plain = all(n < 2 or s == c for n, s, c in zip(shape, steps, contiguous(shape), strict=True))
    first = storage.offset + offset * dtype.itemsize
    return InFile(storage.location, first, dtype, shape, None if plain else steps)


def _from_type(build: Any, kind: Any, args: Any, *_: Any) -> Any:
    """`torch._tensor._rebuild_from_type_v2`: a tensor with attributes, which are left away."""
    name = kind.name if isinstance(kind, Name) else "a tensor of an unknown class"
    if name in PLAIN and build in BUILDS.values() and isinstance(args, tuple):
        return build(*args[:SEVERAL])
    return Note(name, ())


PLAIN = ("torch.Tensor", "torch._tensor.Tensor", "torch.nn.parameter.Buffer")
BUILDS: dict[str, Callable[..., Any]] = {
    "collections.OrderedDict": lambda *args: Note("collections.OrderedDict", args) if args else {},
    "torch.Size": lambda *args: args[0] if args and isinstance(args[0], tuple) else (),
    "torch._utils._rebuild_tensor": _tensor,
    "torch._utils._rebuild_tensor_v2": _tensor,
    "torch._utils._rebuild_tensor_v3": _typed,
    "torch._tensor._rebuild_from_type_v2": _from_type,
    "torch._utils._rebuild_parameter": lambda value, *_: value,
    "torch._utils._rebuild_parameter_with_state": lambda value, *_: value,
}


def _arrays(location: str) -> tuple[dict[str, Array], list[LeftOut], str]:
    if is_remote(location):
        raise Refusal(
            f"`{printable(location)}` is not a .safetensors or .gguf file, and others are not read "
            "from afar: download it, or save it as safetensors."
        )
    found = state_dict(read_torch(location), location)
    return found.arrays, found.left_out, ""


FORMAT = FileFormat(
    "torch.save",
    (".bin", ".pt", ".pth", ".ckpt"),
    lambda *_: True,
    arrays=_arrays,
    weights="pytorch_model.bin",
)
