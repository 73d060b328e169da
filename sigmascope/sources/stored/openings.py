"""Any checkpoint by its name: what it is, what it declares."""

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from contextvars import copy_context
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from torch import nn

from sigmascope.gate import Refusal, printable
from sigmascope.sources.refusals import listed, nearest
from sigmascope.sources.stored.adapters import paired
from sigmascope.sources.stored.addresses import is_address
from sigmascope.sources.stored.archives import Archive, Packed
from sigmascope.sources.stored.distributed import METADATA, read_distributed
from sigmascope.sources.stored.folders import ADAPTER, INDEX, Files, by_index, files_of
from sigmascope.sources.stored.gguf import MAGIC, read_gguf
from sigmascope.sources.stored.groups import assembled
from sigmascope.sources.stored.headers import read_header, shown
from sigmascope.sources.stored.loaded import read_loaded
from sigmascope.sources.stored.modules import bare, configuration, read_mapping
from sigmascope.sources.stored.places import (
    digest,
    exists_at,
    joined,
    last,
    names_at,
    read_bytes,
    read_document,
    size_at,
    stamp,
)
from sigmascope.sources.stored.raws import Raw
from sigmascope.sources.stored.tensors import Checkpoint, LeftOut, Stored
from sigmascope.sources.stored.trees import leaves

CONFIG = "config.json"
AT_ONCE = 16  # headers of files that are far away
T = TypeVar("T")


class Declared(NamedTuple):
    """What files declare together."""

    tensors: list[Stored]
    left_out: list[LeftOut]
    config: Mapping[str, Any]
    hash: str


def open_checkpoint(
    source: str | os.PathLike[str] | nn.Module | Mapping[str, Any],
) -> Checkpoint:
    """A checkpoint from its headers; its tensors are read when they are asked for.

    Args:
        source: A file (.safetensors, .gguf, of `torch.save`), an index of shards, a folder (of
            Hugging Face, of an adapter of PEFT, of `torch.distributed.checkpoint`), the address of
            one that fsspec knows (`s3://`, `hf://`, `https://`), a module, or a mapping of
            tensors. Of a folder, safetensors are taken before other files, and what an index names
            before what lies beside it.

    Returns:
        What it holds. Nothing in it was run, and no numbers were read but the states of weights
        that bitsandbytes packed in four bits.

    Raises:
        Refusal: If there is nothing of that name, or it is damaged, hostile or of a kind that is
            not read.
    """
    if isinstance(source, nn.Module):
        found = read_mapping(source.state_dict(keep_vars=True), type(source).__name__)
        return replace(found, config=configuration(source))
    if isinstance(source, Mapping):
        return read_mapping(source, "tensors in memory")
    name = os.fspath(source)
    place = name if is_address(name) else str(Path(name).expanduser().absolute())
    inside = names_at(place)
    if inside is not None:
        return _folder(name, place, inside)
    if not is_address(place):
        _require_file(Path(place), name)
    return _file(name, place)


def _require_file(path: Path, name: str) -> None:
    if path.is_file():
        return
    if path.exists():
        raise Refusal(f"`{printable(name)}` is a device, pipe or socket; name a file or a folder.")
    beside = [p.name for p in path.parent.iterdir()] if path.parent.is_dir() else []
    raise Refusal(
        f"There is no checkpoint `{printable(name)}`.{printable(nearest(path.name, beside))}"
    )


def _file(name: str, place: str) -> Checkpoint:
    """A checkpoint from one file, by what it is named and by how it begins."""
    folder = place.rpartition("/")[0] if is_address(place) else str(Path(place).parent)
    if place.endswith(INDEX):
        kind = "safetensors" if place.endswith(f".safetensors{INDEX}") else "torch.save"
        return _files(name, folder, by_index(place, folder, kind))
    begins = bytes(read_bytes(place, 0, min(size_at(place), 16)).numpy())
    if not begins:
        raise Refusal(f"`{printable(name)}` is empty: it has no bytes.")
    if last(place) == METADATA:
        return _distributed(name, folder)
    if begins[:4] == MAGIC or place.endswith(".gguf"):
        return _files(name, folder, Files("GGUF", (place,)), alone=True)
    if begins[8:9] == b"{" or place.endswith(".safetensors"):
        return _files(name, folder, Files("safetensors", (place,)), alone=True)
    return _files(name, folder, Files("torch.save", (place,)), alone=True)


def _folder(name: str, place: str, inside: list[str]) -> Checkpoint:
    if METADATA in inside:
        return _distributed(name, place)
    if ADAPTER in inside:
        return _adapter(name, place, inside)
    return _files(name, place, files_of(place, inside))


def _files(name: str, folder: str, files: Files, *, alone: bool = False) -> Checkpoint:
    beside = joined(folder, CONFIG)
    config = _config(folder, required=not alone)
    found = _gguf(files) if files.kind == "GGUF" else _declared(files, config)
    documents = (*files.documents, *((beside,) if config else ()))
    count = len(files.places)
    return Checkpoint(
        name,
        files.kind if count == 1 else f"{files.kind}, {count} shards",
        tuple(found.tensors),
        tuple(found.left_out),
        found.config,
        _fingerprint((*files.places, *documents), found.hash),
    )


def _config(folder: str, *, required: bool) -> dict[str, Any]:
    """The configuration in a folder; a damaged one does not keep a file beside it from opening."""
    if not exists_at(joined(folder, CONFIG)):
        return {}
    with suppress(*(() if required else (Refusal,))):
        return read_document(joined(folder, CONFIG))
    return {}


def _fingerprint(places: Iterable[str], header: str) -> str:
    parts = [part for place in places for part in (last(place), stamp(place))]
    return digest(*parts, header)


def _declared(files: Files, config: Mapping[str, Any]) -> Declared:
    """The tensors of all files together: the scales of a weight may be in the next one."""
    raws: dict[str, Raw] = {}
    left, hashes = [], []
    read = read_header if files.kind == "safetensors" else _torch
    for place, (found, odd, said) in zip(files.places, _each(read, files.places), strict=True):
        both = [n for n in found if n in raws]
        if both:
            raise Refusal(
                f"`{printable(last(place))}` holds {listed(map(shown, both))} once more: the files "
                "beside it are of other checkpoints; name one of them."
            )
        raws |= found
        left += odd
        hashes.append(said)
    there = {*raws, *(entry.name for entry in left)}
    lost = [n for n in files.where if n not in there]
    left += [LeftOut(n, "The index names it, and it is not in its file.") for n in lost]
    tensors, unread = assembled(raws, config)
    return Declared(bare(tensors), [*left, *unread], config, digest(*hashes))


def _each(read: Callable[[str], T], places: Sequence[str]) -> Iterator[T]:
    """What is read of each place, several at once where they are far away."""
    if len(places) < 2 or not is_address(places[0]):
        yield from map(read, places)
        return
    with ThreadPoolExecutor(AT_ONCE) as pool:  # each with the budget of memory that holds here
        yield from pool.map(
            lambda job: job[0].run(read, job[1]), [(copy_context(), p) for p in places]
        )


def _torch(place: str) -> tuple[dict[str, Raw], list[LeftOut], str]:
    """The tensors of a file of `torch.save`; one that is no archive of ranges is read whole."""
    if is_address(place):
        raise Refusal(
            f"`{printable(place)}` is not a .safetensors or .gguf file, and others are not read "
            "from afar: download it, or save it as safetensors."
        )
    if bytes(read_bytes(place, 0, min(size_at(place), 4)).numpy()) == b"PK\x03\x04":
        try:
            content = Archive(place, 0, size_at(place)).content()
            return (*leaves(content, place, Raw), "")
        except Packed:
            pass
    return (*read_loaded(place), "")


def _gguf(files: Files) -> Declared:
    parts = [read_gguf(place) for place in files.places]
    names = [t.name for part in parts for t in (*part.tensors, *part.left_out)]
    if len(set(names)) != len(names):
        raise Refusal("Parts of a split GGUF must have different tensors, got one twice.")
    return Declared(
        [t for part in parts for t in part.tensors],
        [t for part in parts for t in part.left_out],
        parts[0].config,
        digest(*(part.hash for part in parts)),
    )


def _adapter(name: str, place: str, inside: list[str]) -> Checkpoint:
    settings = read_document(joined(place, ADAPTER))
    whole = _files(name, place, files_of(place, inside))
    found = paired(whole.tensors, settings)
    said = _fingerprint([joined(place, ADAPTER)], whole.fingerprint)
    return replace(
        whole,
        format="LoRA adapter",
        tensors=tuple(found.tensors),
        left_out=(*whole.left_out, *found.left_out),
        config=settings,
        fingerprint=said,
        adapters=tuple(found.adapters),
    )


def _distributed(name: str, place: str) -> Checkpoint:
    if is_address(place):
        raise Refusal(
            f"`{printable(name)}` is a folder of torch.distributed.checkpoint, which is not read "
            "from afar: download it, or save it as safetensors."
        )
    raws, left, names, _ = read_distributed(place)
    tensors, unread = assembled(raws, {})
    renamed = [replace(t, name=names.get(t.name, t.name)) for t in tensors]
    files = [joined(place, n) for n in names_at(place) or () if n.endswith((METADATA, ".distcp"))]
    kind = "torch.distributed.checkpoint"
    every = (*left, *unread)
    return Checkpoint(name, kind, tuple(bare(renamed)), every, {}, _fingerprint(files, ""))
