"""Any checkpoint by its name: which files it is, what they declare, and of which kind they are."""

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from contextvars import copy_context
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple, TypeVar, cast

import torch
from torch import Tensor, nn
from torch.nn.parameter import is_lazy

from sigmascope.checkpoints import gguf, safetensors, torch_files
from sigmascope.checkpoints.adapters import paired
from sigmascope.checkpoints.arrays import Array, InMemory
from sigmascope.checkpoints.distributed import METADATA, read_distributed
from sigmascope.checkpoints.locations import (
    digest,
    is_file,
    is_remote,
    joined,
    name_of,
    names_in,
    read_bytes,
    read_json,
    require_inside,
    size_of,
    stamp,
)
from sigmascope.checkpoints.quantization import assembled
from sigmascope.checkpoints.state_dicts import PREFIXES, state_dict
from sigmascope.checkpoints.tensors import Checkpoint, FileFormat, LeftOut, Stored
from sigmascope.core.guard import Refusal, listed, nearest, printable, shown

CONFIG = "config.json"
ADAPTER = "adapter_config.json"
ADAPTERS = {None: "LoRA", "LORA": "LoRA"}  # by the kind that it names; older ones name none
INDEX = ".index.json"
BESIDE = ("training_args.bin", "optimizer.bin", "optimizer.pt", "scheduler.pt", "random_states")
BESIDE += ("rng_state", "scaler.pt")
# Asked in this order what a file is; the last takes what no other does.
FORMATS: tuple[FileFormat, ...] = (gguf.FORMAT, safetensors.FORMAT, torch_files.FORMAT)
AT_ONCE = 16  # headers of files that are far away
T = TypeVar("T")


class Files(NamedTuple):
    """The files of a checkpoint.

    Attributes:
        kind: Their format.
        locations: In order.
        where: What an index says of them: in which file each tensor is; empty without one.
        documents: The index, where there is one.
    """

    kind: FileFormat
    locations: tuple[str, ...]
    where: Mapping[str, str] = {}
    documents: tuple[str, ...] = ()


def open_checkpoint(
    source: str | os.PathLike[str] | nn.Module | Mapping[str, Any],
) -> Checkpoint:
    """A checkpoint from its headers; its tensors are read when they are asked for.

    Args:
        source: A file (.safetensors, .gguf, of `torch.save`), an index of shards, a folder (of
            Hugging Face, of an adapter of PEFT, of `torch.distributed.checkpoint`), the address of
            one that fsspec knows (`s3://`, `hf://`, `https://`), a module, or a mapping of what
            such a file may hold: tensors, modules, mappings and lists of them. Of a folder,
            safetensors are taken before other files, and what an index names before what lies
            beside it.

    Returns:
        What it holds. Nothing in it was run, and no numbers were read but the states of weights
        that bitsandbytes packed in four bits.

    Raises:
        Refusal: If there is nothing of that name, or it is damaged, hostile or of a kind that is
            not read; if numbers of a GGUF are in blocks and the package `gguf` is not installed.
    """
    if isinstance(source, nn.Module):
        # what a model of transformers says of itself, as `config.json` would
        told = getattr(getattr(source, "config", None), "to_dict", None)
        config = told() if callable(told) else {}
        state = source.state_dict(keep_vars=True)
        return _in_memory(state, type(source).__name__, config if isinstance(config, dict) else {})
    if isinstance(source, Mapping):
        return _in_memory(source, "tensors in memory", {})
    name = os.fspath(source)
    if not name:  # as an unset variable of a shell is, and not this folder
        raise Refusal("A checkpoint must have a name, got an empty one: name a file or a folder.")
    location = name if is_remote(name) else str(Path(name).expanduser().absolute())
    inside = names_in(location)
    if inside is None:
        # one file, by what it is named and by how it begins
        path = Path(location)
        if not is_remote(location) and not path.is_file():
            if path.exists():
                raise Refusal(
                    f"`{printable(name)}` is a device, pipe or socket; name a file or a folder."
                )
            if path.is_symlink():
                raise Refusal(
                    f"`{printable(name)}` is a link to `{printable(str(path.readlink()))}`, which "
                    "is not there: fetch the file itself."
                )
            beside = [p.name for p in path.parent.iterdir()] if path.parent.is_dir() else []
            guess = printable(nearest(path.name, beside))
            raise Refusal(f"There is no checkpoint `{printable(name)}`.{guess}")
        folder = location.rpartition("/")[0] if is_remote(location) else str(path.parent)
        if location.endswith(INDEX):
            known = (f for f in FORMATS if f.sharded and location.endswith(f.sharded + INDEX))
            of = next(known, FORMATS[-1])
            return _files(name, folder, by_index(location, folder, of))
        begins = read_bytes(location, 0, min(size_of(location), 16))
        if not begins:
            raise Refusal(f"`{printable(name)}` is empty: it has no bytes.")
        if name_of(location) == METADATA:
            return _distributed(name, folder)
        of = next(f for f in FORMATS if f.is_one(begins, location))
        return _files(name, folder, Files(of, (location,)), alone=True)
    if METADATA in inside:
        return _distributed(name, location)
    if ADAPTER in inside:
        settings = read_json(joined(location, ADAPTER))
        whole = _files(name, location, files_of(location, inside))
        found = paired(whole.tensors, settings)
        return replace(
            whole,
            format=f"{ADAPTERS.get(settings.get('peft_type'), 'PEFT')} adapter",
            tensors=tuple(found.tensors),
            left_out=(*whole.left_out, *found.left_out),
            config=settings,
            fingerprint=_fingerprint([joined(location, ADAPTER)], whole.fingerprint),
            adapters=tuple(found.adapters),
        )
    return _files(name, location, files_of(location, inside))


def _in_memory(state: Mapping[str, Any], name: str, config: Mapping[str, Any]) -> Checkpoint:
    """Tensors in memory, in whatever a file of a training loop may hold them.

    One that is sent elsewhere takes its numbers along.
    """
    found = state_dict(state, name, taken=_taken)
    said = []
    for key, held in found.arrays.items():
        tensor = cast(InMemory, held).tensor
        # how often it was changed in place is not counted of tensors of inference mode
        said.append(f"{key} {held.key()} {'' if tensor.is_inference() else tensor._version}")
    tensors, unread = assembled(found.arrays, {})
    left = (*found.left_out, *unread)
    return Checkpoint(name, "module", _bare(tensors), left, config, digest(*said))


def _taken(value: Any) -> Any:
    """What a file would hold in the place of a module, an optimizer or a tensor."""
    if isinstance(value, nn.Module | torch.optim.Optimizer):
        return value.state_dict()
    if not isinstance(value, Tensor):
        return value
    if value.is_meta or is_lazy(value):
        return LeftOut("", "Without numbers: on the meta device, or not initialised.")
    if value.is_nested or value.layout != torch.strided or value.is_quantized:
        why = "Sparse, nested or quantised by torch, not an array of numbers: save it dense."
        return LeftOut("", why)
    return InMemory(value.detach())


def _bare(tensors: list[Stored]) -> tuple[Stored, ...]:
    """Without what DistributedDataParallel or `torch.compile` put before every name."""
    for prefix in PREFIXES * 2:  # one may stand within the other
        if tensors and all(t.name.startswith(prefix) for t in tensors):
            tensors = [replace(t, name=t.name.removeprefix(prefix)) for t in tensors]
    return tuple(tensors)


def files_of(folder: str, names: list[str]) -> Files:
    """The files of a folder that hold its weights: what an index names, safetensors before others.

    Args:
        folder: It.
        names: Of its files.

    Raises:
        Refusal: If it holds none, or several that are not parts of one another.
    """

    def only(found: list[str]) -> str:
        if len(found) > 1:
            raise Refusal(
                f"`{printable(folder)}` holds several checkpoints, "
                f"{listed(map(printable, found))}: name one of them."
            )
        return found[0]

    for of in (f for f in FORMATS if f.sharded):
        ending, usual = of.sharded, of.weights
        indices = [n for n in names if n.endswith(ending + INDEX)]
        if indices:
            first = usual + INDEX if usual + INDEX in indices else only(indices)
            return by_index(joined(folder, first), folder, of)
        found = [n for n in names if n.endswith(ending) and not n.startswith(BESIDE)]
        if usual in found or "adapter_model" + ending in found:
            found = [usual if usual in found else "adapter_model" + ending]
        if found:
            return Files(of, tuple(joined(folder, n) for n in found))
    for of in FORMATS:
        found = [n for n in names if n.endswith(of.endings) and not n.startswith(BESIDE)]
        if found:
            split = of.parts and all(of.parts in n for n in found)
            parts = found if split else [only(found)]
            return Files(of, tuple(joined(folder, n) for n in parts))
    inside = f"it holds {listed(map(printable, names))}" if names else "it holds no files"
    if not is_remote(folder):  # as of a cache of Hugging Face, of which the links alone were copied
        parts = [*Path(folder).iterdir()] if Path(folder).is_dir() else []
        lost = [p.name for p in parts if p.is_symlink() and not p.exists()]
        folders = sorted(p.name for p in parts if p.is_dir())
        if lost:
            inside += f" but links to what is not there ({listed(map(printable, sorted(lost)))})"
        elif folders:
            inside += f" but folders ({listed(map(printable, folders))}): name one of them"
    raise Refusal(
        f"`{printable(folder)}` must hold a checkpoint (.safetensors, .bin, .gguf, or a .metadata "
        f"of torch.distributed.checkpoint), and {inside}."
    )


def by_index(index: str, folder: str, kind: FileFormat) -> Files:
    """The files that an index names, in the order in which it first names them.

    Raises:
        Refusal: If it is no index, or names files that are not there or not of its folder.
    """
    where = read_json(index).get("weight_map")
    if not isinstance(where, dict) or not all(isinstance(v, str) for v in where.values()):
        raise Refusal(f"`{printable(index)}` must have a `weight_map` of names and files.")
    names = [require_inside(name, index) for name in dict.fromkeys(where.values())]
    there = names_in(folder)
    missing = [n for n in names if there is not None and "/" not in n and n not in there]
    if missing or not names:
        raise Refusal(
            f"`{printable(index)}` names {listed(map(shown, missing)) or 'no files'}, and "
            f"{len(names) - len(missing)} of {len(names)} are there: fetch the rest."
        )
    return Files(kind, tuple(joined(folder, n) for n in names), where, (index,))


def _files(name: str, folder: str, files: Files, *, alone: bool = False) -> Checkpoint:
    beside, config = joined(folder, CONFIG), {}
    if is_file(beside):
        with suppress(*((Refusal,) if alone else ())):  # a damaged one does not keep a file shut
            config = read_json(beside)
    documents = (*files.documents, *((beside,) if config else ()))
    if files.kind.tensors is not None:  # each part stands for itself
        parts = [files.kind.tensors(location) for location in files.locations]
        tensors = tuple(t for found, _, _, _ in parts for t in found)
        left = [t for _, odd, _, _ in parts for t in odd]
        names = [t.name for t in (*tensors, *left)]
        if len(set(names)) != len(names):
            raise Refusal(
                f"Parts of a split {files.kind.name} must have different tensors, got one twice."
            )
        config, hashes = parts[0][2], [said for _, _, _, said in parts]
    else:  # all files together: the scales of a weight may be in the next one
        assert files.kind.arrays is not None
        arrays: dict[str, Array] = {}
        left, hashes = [], []
        every = _each(files.kind.arrays, files.locations)
        for location, (found, odd, said) in zip(files.locations, every, strict=True):
            both = [n for n in found if n in arrays]
            if both:
                raise Refusal(
                    f"`{printable(name_of(location))}` holds {listed(map(shown, both))} once more: "
                    "the files beside it are of other checkpoints; name one of them."
                )
            arrays |= found
            left += odd
            hashes.append(said)
        there = {*arrays, *(entry.name for entry in left)}
        lost = [n for n in files.where if n not in there]
        left += [LeftOut(n, "The index names it, and it is not in its file.") for n in lost]
        made, unread = assembled(arrays, config)
        tensors = _bare(made)
        left += unread
    count = len(files.locations)
    return Checkpoint(
        name,
        files.kind.name if count == 1 else f"{files.kind.name}, {count} shards",
        tensors,
        tuple(left),
        config,
        _fingerprint((*files.locations, *documents), digest(*hashes)),
    )


def _fingerprint(locations: Iterable[str], header: str) -> str:
    parts = [part for location in locations for part in (name_of(location), stamp(location))]
    return digest(*parts, header)


def _each(read: Callable[[str], T], locations: Sequence[str]) -> Iterator[T]:
    """What is read of each file, of several at once where they are far away."""
    if len(locations) < 2 or not is_remote(locations[0]):
        yield from map(read, locations)
        return
    with ThreadPoolExecutor(AT_ONCE) as pool:  # each with the budget of memory that holds here
        yield from pool.map(
            lambda job: job[0].run(read, job[1]), [(copy_context(), at) for at in locations]
        )


def _distributed(name: str, folder: str) -> Checkpoint:
    if is_remote(folder):
        raise Refusal(
            f"`{printable(name)}` is a folder of torch.distributed.checkpoint, which is not read "
            "from afar: download it, or save it as safetensors."
        )
    arrays, left, names = read_distributed(folder)
    tensors, unread = assembled(arrays, {})
    tensors = _bare([replace(t, name=names.get(t.name, t.name)) for t in tensors])
    ends = (METADATA, ".distcp")
    files = [joined(folder, n) for n in names_in(folder) or () if n.endswith(ends)]
    of = "torch.distributed.checkpoint"
    return Checkpoint(name, of, tensors, (*left, *unread), {}, _fingerprint(files, ""))
