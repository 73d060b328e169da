"""Folders of `torch.distributed.checkpoint`: a `.metadata` and chunks in `.distcp` files.

The metadata is a pickle, which is read without running anything; a chunk is a small file of
`torch.save` within a range of a `.distcp` file, of which only the rows that are asked for are read.
`FileSystemReader` of torch runs what the metadata says, and reads a chunk whole for each row.
"""

import io
from collections.abc import Hashable
from dataclasses import dataclass
from math import prod
from typing import Any

import torch
from torch import Tensor

from sigmascope.checkpoints.arrays import Array, InFile, require_shape, word
from sigmascope.checkpoints.locations import (
    joined,
    read_bytes,
    require_inside,
    size_of,
)
from sigmascope.checkpoints.pickles import WEIGHT, Note, read_pickle
from sigmascope.checkpoints.state_dicts import HOLDERS, LOOPS, key_of
from sigmascope.checkpoints.tensors import LeftOut
from sigmascope.checkpoints.torch_files import BUILDS, dtype_of, read_torch
from sigmascope.core import guard
from sigmascope.core.guard import Refusal, printable, shown

METADATA = ".metadata"
PAIRS = 2_000_000  # of boxes that are compared; two thousand that all have the same rows
Sizes = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Chunk:
    """A box of a tensor: where it begins, its sizes, and the range of a file that holds it."""

    first: Sizes
    shape: Sizes
    location: str
    offset: int
    length: int

    def array(self, dtype: torch.dtype) -> InFile:
        """The tensor of the chunk.

        Raises:
            Refusal: If the file holds something else there.
        """
        found = read_torch(self.location, self.offset, self.length)
        if not isinstance(found, InFile) or (found.dtype, found.shape) != (dtype, self.shape):
            raise Refusal(
                f"`{printable(self.location)}` must hold a {word(dtype)} tensor of shape "
                f"{self.shape} from byte {self.offset} on, as its metadata says: it is damaged."
            )
        return found


@dataclass(frozen=True, slots=True)
class Chunks(Array):
    """A tensor in boxes that lie in several files."""

    dtype: torch.dtype
    shape: Sizes
    chunks: tuple[Chunk, ...]

    def rows(self, start: int, stop: int) -> Tensor:
        if not self.shape:
            return self.chunks[0].array(self.dtype).all()
        shape = (stop - start, *self.shape[1:])
        guard.require_room(prod(shape) * self.dtype.itemsize, "A tensor of the checkpoint")
        out = torch.empty(shape, dtype=self.dtype)
        for chunk in self.chunks:
            low = max(start, chunk.first[0])
            high = min(stop, chunk.first[0] + chunk.shape[0])
            if low < high:
                rest = zip(chunk.first[1:], chunk.shape[1:], strict=True)
                box = (slice(low - start, high - start), *(slice(f, f + n) for f, n in rest))
                inside = (low - chunk.first[0], high - chunk.first[0])
                out[box] = chunk.array(self.dtype).rows(*inside)
        return out

    def key(self) -> Hashable:
        return (self.chunks, word(self.dtype), self.shape)


def read_distributed(folder: str) -> tuple[dict[str, Array], list[LeftOut], dict[str, str]]:
    """The tensors of a folder by name, what else it holds, and names in the model.

    Raises:
        Refusal: If the metadata is damaged, or declares chunks that lie outside of their files or
            do not make up their tensors.
    """
    location = joined(folder, METADATA)
    size = size_of(location)
    guard.require_room(WEIGHT * size, f"`{printable(location)}`")
    file = io.BytesIO(read_bytes(location, 0, size))
    metadata = read_pickle(file, location, builds=BUILDS)
    fields = metadata.state if isinstance(metadata, Note) else None
    fields = fields if isinstance(fields, dict) else {}
    declared, where = fields.get("state_dict_metadata"), fields.get("storage_data")
    if not isinstance(declared, dict) or not isinstance(where, dict):
        raise Refusal(f"`{printable(location)}` is not the metadata of a distributed checkpoint.")
    chunks = _Chunks(folder, where)
    arrays, left = {}, []
    for name, entry in declared.items():
        name = name if isinstance(name, str) else "?"
        made = chunks.tensor(name, entry)
        if isinstance(made, Chunks):
            arrays[name] = made
        else:
            left.append(LeftOut(name, made))
    names = {}  # without the key under which the weights were kept: `w` for `("model", "w")`
    planned = fields.get("planner_data")
    for name, path in planned.items() if isinstance(planned, dict) else ():
        if isinstance(path, tuple) and len(path) > 1 and path[0] in HOLDERS:
            names[name] = ".".join(map(key_of, path[1:]))
    return arrays, left, names


class _Chunks:
    """Where chunks lie, with the sizes of files asked once."""

    def __init__(self, folder: str, where: dict[Any, Any]) -> None:
        self.folder = folder
        self.sizes: dict[str, int] = {}
        self.infos: dict[tuple[str, Any], Note] = {}  # by name and first place
        for index, info in where.items():
            name, first = (
                (index.get("fqn"), index.get("offset")) if isinstance(index, Note) else (None, None)
            )
            plain = isinstance(first, tuple) and all(type(n) is int for n in first)
            if isinstance(name, str) and (plain or first is None) and isinstance(info, Note):
                self.infos[name, first] = info

    def tensor(self, name: str, entry: Any) -> Chunks | str:
        """A tensor in its chunks, or why it is none."""
        if name.split(".", maxsplit=1)[0] in LOOPS:
            return "Of the training loop, not weights."
        if not isinstance(entry, Note) or not entry.name.endswith("TensorStorageMetadata"):
            return "An object that was pickled whole (a count, a setting), not a tensor."
        shape = require_shape(entry.get("size"), f"`{shown(name)}`")
        properties = entry.get("properties")
        state = properties.state if isinstance(properties, Note) else None
        named = state.get("dtype") if isinstance(state, dict) else state
        dtype = dtype_of(named[0] if isinstance(named, tuple) and named else named)
        if dtype is None:
            return "Of a kind of number that this torch does not have."
        chunks, boxes = [], entry.get("chunks")
        for box in boxes if isinstance(boxes, list) else ():
            chunk = self.chunk(name, box, shape)
            if isinstance(chunk, str):
                return chunk
            chunks.append(chunk)
        if sum(prod(c.shape) for c in chunks) != prod(shape) or _overlap(chunks):
            raise _damaged(name, "its chunks do not make it up")
        return Chunks(dtype, shape, tuple(chunks))

    def chunk(self, name: str, box: Any, shape: Sizes) -> Chunk | str:
        """A box of a tensor, or why there is none."""
        first, sizes = (
            require_shape(
                box.get(k) if isinstance(box, Note) else None, f"A chunk of `{shown(name)}`"
            )
            for k in ("offsets", "sizes")
        )
        fits = len(first) == len(sizes) == len(shape)
        if not fits or any(f + n > m for f, n, m in zip(first, sizes, shape, strict=True)):
            raise _damaged(name, "a chunk lies outside of it")
        info = self.infos.get((name, first))
        if info is None:
            return "A chunk of it is in no file."
        if info.get("transform_descriptors"):
            return "Its chunks were changed by a codec when they were written, which is not undone."
        file, offset, length = (info.get(k) for k in ("relative_path", "offset", "length"))
        if not isinstance(file, str) or type(offset) is not int or type(length) is not int:
            raise _damaged(name, "a chunk has no place")
        location = joined(self.folder, require_inside(file, self.folder))
        if file not in self.sizes:
            self.sizes[file] = size_of(location)
        if offset < 0 or length < 0 or offset + length > self.sizes[file]:
            raise _damaged(name, f"a chunk lies outside of `{shown(file)}`")
        return Chunk(first, sizes, location, offset, length)


def _overlap(chunks: list[Chunk]) -> bool:
    """Whether two boxes share a number, or too many have rows in common to find out."""
    full = sorted((c for c in chunks if prod(c.shape) and c.shape), key=lambda c: c.first)
    compared = 0
    for n, one in enumerate(full):
        for m in range(n + 1, len(full)):
            other = full[m]
            if other.first[0] >= one.first[0] + one.shape[0]:
                break
            compared += 1
            ends = zip(one.first, one.shape, other.first, other.shape, strict=True)
            if compared > PAIRS or all(a < b + k and b < a + j for a, j, b, k in ends):
                return True
    return False


def _damaged(name: str, why: str) -> Refusal:
    return Refusal(f"`{shown(name)}` cannot be read, for {why}: the checkpoint is damaged.")
