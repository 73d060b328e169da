"""Folders of `torch.distributed.checkpoint`: a `.metadata` and chunks in `.distcp` files.

The metadata is a pickle, which is read without running anything; a chunk is a small file of
`torch.save` within a range of a `.distcp` file, of which only the rows that are asked for are read.
"""

from collections.abc import Hashable, Iterator
from dataclasses import dataclass
from math import prod
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from sigmascope import gate
from sigmascope.gate import Refusal, printable
from sigmascope.sources.stored.archives import Archive, Packed
from sigmascope.sources.stored.folders import inside
from sigmascope.sources.stored.headers import shown
from sigmascope.sources.stored.pickles import Name, Note, read_pickle
from sigmascope.sources.stored.places import joined, read_bytes, size_at
from sigmascope.sources.stored.raws import Range, Raw, require_shape, word
from sigmascope.sources.stored.tensors import LeftOut
from sigmascope.sources.stored.trees import HOLDERS, LOOPS, key_of

METADATA = ".metadata"
MODULES = ("torch.", "collections.", "pathlib.", "_codecs.", "builtins.")
BUILDS = {"torch.Size": lambda *args: args[0] if args and isinstance(args[0], tuple) else ()}
PAIRS = 2_000_000  # of boxes that are compared; two thousand that all have the same rows
Sizes = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Chunk:
    """A box of a tensor: where it begins, its sizes, and the range of a file that holds it."""

    first: Sizes
    shape: Sizes
    place: str
    offset: int
    length: int

    def raw(self, dtype: torch.dtype) -> Range:
        """The tensor of the chunk.

        Raises:
            Refusal: If the file holds something else there.
        """
        try:
            found = Archive(self.place, self.offset, self.length).content()
        except Packed:
            found = None
        if not isinstance(found, Range) or (found.dtype, found.shape) != (dtype, self.shape):
            raise Refusal(
                f"`{printable(self.place)}` must hold a {word(dtype)} tensor of shape {self.shape} "
                f"from byte {self.offset} on, as its metadata says: it is damaged."
            )
        return found


@dataclass(frozen=True, slots=True)
class Chunks(Raw):
    """A tensor in boxes that lie in several files."""

    dtype: torch.dtype
    shape: Sizes
    chunks: tuple[Chunk, ...]

    def rows(self, start: int, stop: int) -> Tensor:
        shape = (stop - start, *self.shape[1:]) if self.shape else ()
        gate.require_room(prod(shape) * self.dtype.itemsize, "A tensor of the checkpoint")
        out = torch.empty(shape, dtype=self.dtype)
        for chunk in self.chunks:
            if not self.shape:
                return chunk.raw(self.dtype).all()
            low = max(start, chunk.first[0])
            high = min(stop, chunk.first[0] + chunk.shape[0])
            if low < high:
                part = chunk.raw(self.dtype).rows(low - chunk.first[0], high - chunk.first[0])
                rest = zip(chunk.first[1:], chunk.shape[1:], strict=True)
                box = (slice(low - start, high - start), *(slice(f, f + n) for f, n in rest))
                out[box] = part
        return out

    def key(self) -> Hashable:
        return (self.chunks, word(self.dtype), self.shape)


def read_distributed(folder: str) -> tuple[dict[str, Raw], list[LeftOut], dict[str, str], bytes]:
    """The tensors of a folder by name, what else it holds, names in the model, and the metadata.

    Raises:
        Refusal: If the metadata is damaged, names what is not built here, or declares chunks that
            lie outside of their files or do not make up their tensors.
    """
    place = joined(folder, METADATA)
    size = size_at(place)
    gate.require_room(size, f"`{printable(place)}`")
    data = bytes(read_bytes(place, 0, size).numpy())
    accepts = lambda name: name.startswith(MODULES)
    metadata = read_pickle(data, place, builds=BUILDS, accepts=accepts)
    declared = metadata.get("state_dict_metadata") if isinstance(metadata, Note) else None
    where = metadata.get("storage_data") if isinstance(metadata, Note) else None
    if not isinstance(declared, dict) or not isinstance(where, dict):
        raise Refusal(f"`{printable(place)}` is not the metadata of a distributed checkpoint.")
    stored = _Stored(folder, _by_chunk(where))
    raws, left = {}, []
    for name, entry in declared.items():
        name = str(name) if isinstance(name, str) else "?"
        made = _tensor(name, entry, stored)
        if isinstance(made, Chunks):
            raws[name] = made
        else:
            left.append(LeftOut(name, made))
    return raws, left, _names(metadata.get("planner_data")), data


class _Stored:
    """Where chunks lie, with the sizes of files asked once."""

    def __init__(self, folder: str, infos: dict[tuple[str, Any], Note]) -> None:
        self.folder, self.infos = folder, infos
        self.sizes: dict[str, int] = {}
        self.places: dict[str, str] = {}

    def chunk(self, name: str, first: Sizes, shape: Sizes) -> Chunk | str:
        """A box of a tensor, or why there is none."""
        info = self.infos.get((name, first))
        if info is None:
            return "A chunk of it is in no file."
        if info.get("transform_descriptors"):
            return "Its chunks were changed by a codec when they were written, which is not undone."
        file, offset, length = (info.get(k) for k in ("relative_path", "offset", "length"))
        if not isinstance(file, str) or type(offset) is not int or type(length) is not int:
            raise _damaged(name, "a chunk has no place")
        if file not in self.places:
            self.places[file] = joined(self.folder, inside(file, self.folder))
            self.sizes[file] = size_at(self.places[file])
        if offset < 0 or length < 0 or offset + length > self.sizes[file]:
            raise _damaged(name, f"a chunk lies outside of `{shown(file)}`")
        return Chunk(first, shape, self.places[file], offset, length)


def _tensor(name: str, entry: Any, stored: _Stored) -> Chunks | str:
    """A tensor in its chunks, or why it is none."""
    if name.split(".", maxsplit=1)[0] in LOOPS:
        return "Of the training loop, not weights."
    if not isinstance(entry, Note) or not entry.name.endswith("TensorStorageMetadata"):
        return "An object that was pickled whole (a count, a setting), not a tensor."
    shape, dtype = require_shape(entry.get("size"), f"`{shown(name)}`"), _dtype(entry)
    if dtype is None:
        return "Of a kind of number that this torch does not have."
    chunks = []
    for first, sizes in _boxes(name, entry.get("chunks"), shape):
        chunk = stored.chunk(name, first, sizes)
        if isinstance(chunk, str):
            return chunk
        chunks.append(chunk)
    if sum(prod(c.shape) for c in chunks) != prod(shape) or _overlap(chunks):
        raise _damaged(name, "its chunks do not make it up")
    return Chunks(dtype, shape, tuple(chunks))


def _boxes(name: str, notes: Any, shape: Sizes) -> Iterator[tuple[Sizes, Sizes]]:
    """Where the chunks of a tensor begin, and their sizes, each within it."""
    for note in notes if isinstance(notes, list) else ():
        box = [note.get(k) if isinstance(note, Note) else None for k in ("offsets", "sizes")]
        first, sizes = (require_shape(b, f"A chunk of `{shown(name)}`") for b in box)
        fits = len(first) == len(sizes) == len(shape)
        if not fits or any(f + n > m for f, n, m in zip(first, sizes, shape, strict=True)):
            raise _damaged(name, "a chunk lies outside of it")
        yield first, sizes


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
            if compared > PAIRS or all(a < b + k and b < a + m for a, m, b, k in ends):
                return True
    return False


def _dtype(entry: Note) -> torch.dtype | None:
    properties = entry.get("properties")
    state = properties.state if isinstance(properties, Note) else None
    named = state[0] if isinstance(state, tuple) and state else None
    if isinstance(properties, Note) and named is None:
        named = properties.get("dtype")
    dtype = getattr(torch, named.word, None) if isinstance(named, Name) else None
    return dtype if isinstance(dtype, torch.dtype) else None


def _by_chunk(where: dict[Any, Any]) -> dict[tuple[str, Any], Note]:
    found = {}
    for index, info in where.items():
        name = index.get("fqn") if isinstance(index, Note) else None
        first = index.get("offset") if isinstance(index, Note) else None
        plain = first is None or (isinstance(first, tuple) and all(type(n) is int for n in first))
        if isinstance(name, str) and plain and isinstance(info, Note):
            found[name, first] = info
    return found


def _names(planned: Any) -> dict[str, str]:
    """Names without the key under which the weights were kept: `w` for `("model", "w")`."""
    names = {}
    for name, path in planned.items() if isinstance(planned, dict) else ():
        keys = path if isinstance(path, tuple) else ()
        if len(keys) > 1 and keys[0] in HOLDERS:
            names[name] = ".".join(map(key_of, keys[1:]))
    return names


def _damaged(name: str, why: str) -> Refusal:
    return Refusal(f"`{shown(name)}` cannot be read, for {why}: the checkpoint is damaged.")


def is_distributed(folder: str) -> bool:
    """Whether a folder of this machine is such a checkpoint."""
    return Path(folder, METADATA).is_file()
