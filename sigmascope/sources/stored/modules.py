"""Tensors in memory as a checkpoint: a module, or a mapping of tensors."""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from torch import Tensor, nn

from sigmascope.sources.checkpoints import PREFIXES
from sigmascope.sources.stored.groups import assembled
from sigmascope.sources.stored.loaded import why_no_array
from sigmascope.sources.stored.places import digest
from sigmascope.sources.stored.raws import Held, Raw
from sigmascope.sources.stored.tensors import Checkpoint, LeftOut, Stored
from sigmascope.sources.stored.trees import kind


def read_mapping(state: Mapping[str, Any], name: str) -> Checkpoint:
    """A checkpoint of tensors in memory; one that is sent elsewhere takes its numbers along.

    Args:
        state: Tensors by name; nothing of it is changed or copied until it is read.
        name: Of the checkpoint.
    """
    raws: dict[str, Raw] = {}
    left, said = [], []
    for key, value in state.items():
        why = why_no_array(value) if isinstance(value, Tensor) else f"Not a tensor: {kind(value)}."
        if why:
            left.append(LeftOut(str(key), why))
            continue
        raws[str(key)] = held = Held(value.detach())
        # how often it was changed in place is not counted of tensors of inference mode
        changes = "" if value.is_inference() else value._version
        said.append(f"{key} {held.key()} {changes}")
    tensors, unread = assembled(raws, {})
    found = tuple(bare(tensors))
    return Checkpoint(name, "module", found, (*left, *unread), {}, digest(*said))


def configuration(module: nn.Module) -> Mapping[str, Any]:
    """What a model of transformers says of itself, as `config.json` would; nothing of others."""
    told = getattr(getattr(module, "config", None), "to_dict", None)
    found = told() if callable(told) else {}
    return found if isinstance(found, Mapping) else {}


def bare(tensors: list[Stored]) -> list[Stored]:
    """Without what DistributedDataParallel or `torch.compile` put before every name."""
    for prefix in PREFIXES * 2:  # one may stand within the other
        if tensors and all(t.name.startswith(prefix) for t in tensors):
            tensors = [replace(t, name=t.name.removeprefix(prefix)) for t in tensors]
    return tensors
