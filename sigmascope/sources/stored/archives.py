"""Files of `torch.save`, read as headers: where in the file each tensor lies.

The file is a zip whose `data.pkl` describes tensors and whose other members are their storages, not
packed. So a tensor is a range of the file, and neither torch nor anything in the file is run.
"""

import struct
import zipfile
from collections.abc import Callable
from dataclasses import dataclass, field
from math import prod
from typing import Any

import torch

from sigmascope import gate
from sigmascope.gate import Refusal, printable
from sigmascope.sources.refusals import told
from sigmascope.sources.stored.pickles import Name, Note, read_pickle
from sigmascope.sources.stored.places import Window, read_bytes
from sigmascope.sources.stored.raws import (
    LARGEST,
    Range,
    contiguous,
    extent,
    require_shape,
)

DIRECTORY = 64 << 20  # bytes of the list of members: a million of them
MEMBERS = 1_000_000
LOCAL = struct.Struct("<4s5H3I2H")  # the header before a member
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


class Packed(Exception):
    """Members of an archive are compressed, so that they are no ranges of the file."""


@dataclass(frozen=True, slots=True)
class Storage:
    """Numbers in a row: where they begin, how many bytes, and of which kind."""

    place: str
    offset: int
    size: int
    dtype: torch.dtype


@dataclass(slots=True)
class Archive:
    """A zip within a range of a file.

    Attributes:
        place: The file.
        start: First byte of the range.
        size: Of the range.
    """

    place: str
    start: int
    size: int
    members: dict[str, zipfile.ZipInfo] = field(default_factory=dict)
    prefix: str = ""
    storages: dict[str, Storage] = field(default_factory=dict)

    def content(self) -> Any:
        """What was saved, with a `Range` for every tensor.

        Raises:
            Refusal: If the archive is damaged, a program, or of another byte order.
            Packed: If its storages are compressed.
        """
        try:
            data = self._described()
        except (Refusal, Packed):
            raise
        except Exception as error:  # of bytes that are no zip the reader raises anything
            raise Refusal(
                f"`{printable(self.place)}` is damaged or not a file of `torch.save` "
                f"({told(error)}): save it again."
            ) from error
        return read_pickle(data, self.place, builds=BUILDS, held=self._storage)

    def _described(self) -> bytes:
        """The pickle that describes the tensors."""
        window: Any = Window(self.place, start=self.start, size=self.size, most=DIRECTORY)
        with zipfile.ZipFile(window) as archive:
            self._list(archive)
            order = self.members.get(f"{self.prefix}byteorder")
            if order is not None and archive.open(order).read(16) != b"little":
                raise Refusal(f"`{printable(self.place)}` has bytes in an order that is not read.")
            member = self.members[f"{self.prefix}data.pkl"]
            gate.require_room(member.file_size, f"The pickle in `{printable(self.place)}`")
            with archive.open(member) as file:
                return file.read(member.file_size)

    def _list(self, archive: zipfile.ZipFile) -> None:
        self.members = {m.filename: m for m in archive.infolist()}
        named = [n for n in self.members if n == "data.pkl" or n.endswith("/data.pkl")]
        if len(named) != 1 or len(self.members) > MEMBERS:
            raise Refusal(f"`{printable(self.place)}` is a zip, but not of `torch.save`.")
        self.prefix = named[0].removesuffix("data.pkl")
        if f"{self.prefix}constants.pkl" in self.members:
            raise Refusal(
                f"`{printable(self.place)}` is a program of TorchScript, which is not run: "
                "save its `state_dict()` with `torch.save`."
            )

        if any(m.compress_type != zipfile.ZIP_STORED for m in self.members.values()):
            raise Packed

    def _storage(self, pid: Any) -> Storage | Note:
        if not isinstance(pid, tuple) or len(pid) != 5 or pid[0] != "storage":
            raise Refusal("it refers to storages in a way that is not known")
        _, kind, key, _, count = pid
        member = self.members.get(f"{self.prefix}data/{key}") if isinstance(key, str) else None
        if not isinstance(kind, Name) or member is None or type(count) is not int or count < 0:
            raise Refusal("a storage of it is not in the file")
        dtype = STORAGES.get(kind.word)
        if dtype is None:  # of numbers that torch has quantised, say: the others may be sound
            return Note(kind.full, ())
        if count * dtype.itemsize > member.file_size:
            raise Refusal("a storage of it has fewer bytes than it declares")
        if key not in self.storages:
            offset = self._first(member)
            self.storages[key] = Storage(self.place, offset, member.file_size, dtype)
        known = self.storages[key]
        return Storage(self.place, known.offset, count * dtype.itemsize, dtype)

    def _first(self, member: zipfile.ZipInfo) -> int:
        """Where the bytes of a member begin, which only the header before them says."""
        at = self.start + member.header_offset
        header = bytes(read_bytes(self.place, at, LOCAL.size).numpy())
        mark, *_, name, extra = LOCAL.unpack(header)
        first = at + LOCAL.size + name + extra
        if mark != b"PK\x03\x04" or first + member.file_size > self.start + self.size:
            raise Refusal("a storage of it lies outside of the file")
        return first


def _tensor(storage: Any, offset: Any, size: Any, stride: Any, *rest: Any) -> Any:
    """`torch._utils._rebuild_tensor_v2`, without a tensor."""
    if not isinstance(storage, Storage):
        return storage if isinstance(storage, Note) else Note("a tensor of another device", ())
    if len(rest) > 2 and rest[2]:
        return Note("a conjugate or negative view", ())
    return _range(storage, storage.dtype, offset, size, stride)


def _typed(storage: Any, offset: Any, size: Any, stride: Any, *rest: Any) -> Any:
    """`torch._utils._rebuild_tensor_v3`, whose kind of number is told apart from the storage."""
    named = rest[2] if len(rest) > 2 else None
    dtype = getattr(torch, named.word, None) if isinstance(named, Name) else None
    if not isinstance(storage, Storage) or not isinstance(dtype, torch.dtype):
        return Note("a tensor of a kind of number that this torch does not have", ())
    return _range(storage, dtype, offset, size, stride)


def _range(storage: Storage, dtype: torch.dtype, offset: Any, size: Any, stride: Any) -> Range:
    shape = require_shape(size, "a tensor of it")
    steps: tuple[Any, ...] = stride if isinstance(stride, tuple) else (None,)
    fits = len(shape) == len(steps) and all(type(s) is int and 0 <= s < LARGEST for s in steps)
    fits = fits and type(offset) is int and offset >= 0
    reach = (offset + extent(shape, steps)) * dtype.itemsize if fits and prod(shape) else 0
    if not fits or reach > storage.size:
        raise Refusal("a tensor of it lies outside of its storage")
    plain = all(n < 2 or s == c for n, s, c in zip(shape, steps, contiguous(shape), strict=True))
    first = storage.offset + offset * dtype.itemsize
    return Range(storage.place, first, dtype, shape, None if plain else steps)


def _from_type(build: Any, kind: Any, args: Any, *_: Any) -> Any:
    """`torch._tensor._rebuild_from_type_v2`: a tensor with attributes, which are left away."""
    plain = isinstance(kind, Name) and kind.full in PLAIN
    if plain and isinstance(build, Name) and build.full in BUILDS and isinstance(args, tuple):
        return BUILDS[build.full](*args)
    return Note(kind.full if isinstance(kind, Name) else "a tensor of an unknown class", ())


def _first_of(value: Any, *_: Any) -> Any:
    return value


def _mapping(*args: Any) -> Any:
    return {} if not args else Note("collections.OrderedDict", args)


def _size(*args: Any) -> Any:
    return args[0] if args and isinstance(args[0], tuple) else ()


PLAIN = ("torch.Tensor", "torch._tensor.Tensor", "torch.nn.parameter.Buffer")
BUILDS: dict[str, Callable[..., Any]] = {
    "collections.OrderedDict": _mapping,
    "torch.Size": _size,
    "torch._utils._rebuild_tensor": _tensor,
    "torch._utils._rebuild_tensor_v2": _tensor,
    "torch._utils._rebuild_tensor_v3": _typed,
    "torch._tensor._rebuild_from_type_v2": _from_type,
    "torch._utils._rebuild_parameter": _first_of,
    "torch._utils._rebuild_parameter_with_state": _first_of,
}
