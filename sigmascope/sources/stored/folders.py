"""Which files of a folder are its checkpoint."""

from collections.abc import Iterable, Mapping
from pathlib import PurePosixPath
from typing import NamedTuple

from sigmascope.gate import Refusal, printable
from sigmascope.sources.refusals import listed
from sigmascope.sources.stored.addresses import is_address
from sigmascope.sources.stored.headers import shown
from sigmascope.sources.stored.places import joined, names_at, read_document

INDEX = ".index.json"
TORCH = (".bin", ".pt", ".pth", ".ckpt")
ADAPTER = "adapter_config.json"
BESIDE = ("training_args.bin", "optimizer.bin", "optimizer.pt", "scheduler.pt", "random_states")
BESIDE += ("rng_state", "scaler.pt")


class Files(NamedTuple):
    """The files of a checkpoint.

    Attributes:
        kind: "safetensors", "torch.save" or "GGUF".
        places: In order.
        where: What an index says of them: in which file each tensor is; empty without one.
        documents: The index, where there is one.
    """

    kind: str
    places: tuple[str, ...]
    where: Mapping[str, str] = {}
    documents: tuple[str, ...] = ()


def inside(name: str, folder: str) -> str:
    """The name of a file that another file gives, if it is of the same folder.

    Raises:
        Refusal: If it leads anywhere else.
    """
    path = PurePosixPath(name)
    bad = path.is_absolute() or ".." in path.parts or "\\" in name or "\0" in name or not path.parts
    if bad or is_address(name) or (len(name) > 1 and name[1] == ":"):
        raise Refusal(
            f"`{printable(folder)}` must name files of its own folder, got `{shown(name)}`, which "
            "leads out of it: it is damaged or hostile."
        )
    return name


def files_of(folder: str, names: list[str]) -> Files:
    """The files of a folder that hold its weights: what an index names, safetensors before others.

    Args:
        folder: It.
        names: Of its files.

    Raises:
        Refusal: If it holds none, or several that are not parts of one another.
    """
    for ending, usual, kind in (
        (".safetensors", "model.safetensors", "safetensors"),
        (".bin", "pytorch_model.bin", "torch.save"),
    ):
        indices = [n for n in names if n.endswith(ending + INDEX)]
        if indices:
            first = usual + INDEX if usual + INDEX in indices else _one(indices, folder)
            return by_index(joined(folder, first), folder, kind)
        found = [n for n in names if n.endswith(ending) and not n.startswith(BESIDE)]
        if usual in found or "adapter_model" + ending in found:
            found = [usual if usual in found else "adapter_model" + ending]
        if found:
            return Files(kind, tuple(joined(folder, n) for n in found))
    found = [n for n in names if n.endswith(".gguf")]
    if found:
        parts = found if all("-of-" in n for n in found) else [_one(found, folder)]
        return Files("GGUF", tuple(joined(folder, n) for n in parts))
    found = [n for n in names if n.endswith(TORCH) and not n.startswith(BESIDE)]
    if found:
        return Files("torch.save", (joined(folder, _one(found, folder)),))
    inside_it = f"it holds {listed(map(printable, names))}" if names else "it holds no files"
    raise Refusal(
        f"`{printable(folder)}` must hold a checkpoint (.safetensors, .bin, .gguf, or a .metadata "
        f"of torch.distributed.checkpoint), and {inside_it}."
    )


def by_index(index: str, folder: str, kind: str) -> Files:
    """The files that an index names, in the order in which it first names them.

    Raises:
        Refusal: If it is no index, or names files that are not there or not of its folder.
    """
    where = read_document(index).get("weight_map")
    if not isinstance(where, dict) or not all(isinstance(v, str) for v in where.values()):
        raise Refusal(f"`{printable(index)}` must have a `weight_map` of names and files.")
    names = list(dict.fromkeys(where.values()))
    for name in names:
        inside(name, index)
    there = names_at(folder)
    missing = [n for n in names if there is not None and "/" not in n and n not in there]
    if missing or not names:
        raise Refusal(
            f"`{printable(index)}` names {listed(map(shown, missing)) or 'no files'}, and "
            f"{len(names) - len(missing)} of {len(names)} are there: fetch the rest."
        )
    return Files(kind, tuple(joined(folder, n) for n in names), where, (index,))


def _one(names: Iterable[str], folder: str) -> str:
    names = list(names)
    if len(names) > 1:
        raise Refusal(
            f"`{printable(folder)}` holds several checkpoints, {listed(map(printable, names))}: "
            "name one of them."
        )
    return names[0]
