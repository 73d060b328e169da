"""Weights from a file into a model."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.parameter import is_lazy

from sigmascope.gate import Refusal, require_dense
from sigmascope.sources.castings import SHOWN, misfits, narrowed
from sigmascope.sources.files import existing, read_safetensors, read_torch
from sigmascope.sources.refusals import listed, nearest

WRAPPERS = ("state_dict", "model_state_dict", "model")  # where training loops keep it in a file
PREFIXES = ("module.", "_orig_mod.")  # DistributedDataParallel, torch.compile


def load_checkpoint(module: nn.Module, path: str | Path) -> str:
    """Load a state dict, every key of it and every key of the model.

    A state dict kept under `state_dict`, `model_state_dict` or `model` is found, and a prefix that
    DistributedDataParallel or `torch.compile` put before every name is dropped. Numbers are rounded
    to the precision of the model, which is said; nothing else of them is lost.

    Args:
        module: Changed in place, all of it or (where there is a refusal) nothing.
        path: A `.pt`, `.pth`, `.bin`, `.ckpt` or `.safetensors` file.

    Returns:
        What was read, in words.

    Raises:
        Refusal: If the file cannot be read, names or shapes do not match the model, or its kind of
            number cannot hold the values: an imaginary part, an overflow, codes of quantised
            weights; or if there are NaN among them.
    """
    path = existing(Path(path).expanduser())
    content = read_safetensors(path) if path.suffix == ".safetensors" else read_torch(path)
    state, remark = _unwrapped(content, path)
    own = module.state_dict(keep_vars=True)
    if set(state) != set(own):
        state, remark = _without_prefix(state, remark)
    _require_same(state, own, path)
    said = [why for why, _ in zip(misfits(state, own), range(SHOWN), strict=False)]
    if said:
        raise Refusal(f"`{path}` does not fit the model: {'; '.join(said)}.")
    remark += narrowed(state, own)
    try:
        module.load_state_dict(
            state, strict=False
        )  # strictness was seen to above, tied names aside
    except RuntimeError as error:
        raise Refusal(
            f"`{path}` does not fit the model: {str(error).splitlines()[-1].strip()}"
        ) from error
    return f"from {path.name}{remark}"


def read_checkpoint(path: str | Path) -> dict[str, Tensor]:
    """The tensors of a checkpoint by name, as `load_checkpoint` finds them.

    Args:
        path: A `.pt`, `.pth`, `.bin`, `.ckpt` or `.safetensors` file.

    Raises:
        Refusal: If the file cannot be read or holds something else.
    """
    path = existing(Path(path).expanduser())
    content = read_safetensors(path) if path.suffix == ".safetensors" else read_torch(path)
    return _unwrapped(content, path)[0]


def _unwrapped(content: Any, path: Path) -> tuple[dict[str, Tensor], str]:
    """The state dict within a file, and where in the file it was."""
    for key in WRAPPERS:
        if isinstance(content, Mapping) and isinstance(content.get(key), Mapping):
            return _tensors(content[key], path), f" (its `{key}`)"
    return _tensors(content, path), ""


def _tensors(content: Any, path: Path) -> dict[str, Tensor]:
    if not isinstance(content, Mapping) or not content:
        raise Refusal(
            f"`{path}` must hold a state dict (names and tensors), got "
            f"{'an empty one' if isinstance(content, Mapping) else type(content).__name__}."
        )
    odd = [str(name) for name, value in content.items() if not isinstance(value, Tensor)]
    if odd:
        raise Refusal(
            f"`{path}` must hold a state dict (names and tensors), but {listed(odd)} "
            "is something else: save `model.state_dict()`."
        )
    for name, value in content.items():
        require_dense(value, f"`{name}` in `{path}`")
    return {str(name): value for name, value in content.items()}


def _without_prefix(state: dict[str, Tensor], remark: str) -> tuple[dict[str, Tensor], str]:
    for prefix in PREFIXES * 2:  # one may stand within the other
        if state and all(name.startswith(prefix) for name in state):
            state = {name.removeprefix(prefix): value for name, value in state.items()}
            remark += f" (without the prefix `{prefix}`)"
    return state, remark


def _require_same(state: dict[str, Tensor], own: dict[str, Tensor], path: Path) -> None:
    """Refuse a state dict that lacks a name, has one too many, or another shape."""
    given = {_storage(own[name]) for name in state if name in own}
    missing = [
        n for n in own if n not in state and (is_lazy(own[n]) or _storage(own[n]) not in given)
    ]
    unexpected = [name for name in state if name not in own]
    said = []
    if missing:
        said.append(f"it lacks {listed(missing)}")
    if unexpected:
        guess = nearest(unexpected[0], missing) if missing else ""
        said.append(
            f"the model has no {listed(unexpected)}{guess.rstrip('?').replace(' Did', ' - did')}"
        )
    said += [
        f"`{name}` has shape {tuple(state[name].shape)}, the model's {tuple(value.shape)}"
        for name, value in own.items()
        if name in state and not is_lazy(value) and value.shape != state[name].shape
    ][:3]
    if said:
        raise Refusal(f"`{path}` does not fit the model: {'; '.join(said)}.")


def _storage(tensor: Tensor) -> int:
    # Tied weights are one storage under several names, of which safetensors keeps one.
    if is_lazy(tensor) or tensor.numel() == 0 or tensor.device == torch.device("meta"):
        return -id(tensor)
    return tensor.untyped_storage().data_ptr()
