"""Weights from a file into a model."""

from math import prod
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.nn.parameter import is_lazy

from sigmascope.checkpoints.arrays import InFile
from sigmascope.checkpoints.castings import SHOWN, misfits, narrowed
from sigmascope.checkpoints.safetensors import read_header
from sigmascope.checkpoints.state_dicts import PREFIXES, StateDict, state_dict
from sigmascope.checkpoints.torch_files import read_torch
from sigmascope.core import guard
from sigmascope.core.guard import Refusal, listed, nearest

KINDS = (".pt", ".pth", ".ckpt", ".bin", ".safetensors")


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
    state, remark = _state(path)
    path = Path(path)
    own = module.state_dict(keep_vars=True)
    if set(state) != set(own):
        for prefix in PREFIXES * 2:  # one may stand within the other
            if state and all(name.startswith(prefix) for name in state):
                state = {name.removeprefix(prefix): value for name, value in state.items()}
                remark += f" (without the prefix `{prefix}`)"
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
    ][:SHOWN]
    if said:
        raise Refusal(f"`{path}` does not fit the model: {'; '.join(said)}.")
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
    return _state(path)[0]


def _state(given: str | Path) -> tuple[dict[str, Tensor], str]:
    """The state dict within a file, in its pages, and where in the file it was."""
    path = guard.require_file(Path(given).expanduser(), KINDS)
    if path.suffix == ".py":
        raise Refusal(
            f"`{path}` is a program, not a checkpoint: `sigmascope profile {path.name}:NAME` "
            "measures the model that a function of it returns."
        )
    location = str(path.absolute())
    if path.suffix == ".safetensors":
        header = read_header(location)
        found = StateDict(header.arrays, header.left_out, header.left_out, "")
    else:
        found = state_dict(read_torch(location), location)
    if found.odd:
        names, why = listed(entry.name for entry in found.odd), found.odd[0].why.rstrip(".")
        raise Refusal(
            f"`{path}` must hold a state dict (names and tensors), but {names} is something else "
            f"({why}): save `model.state_dict()`."
        )
    if not found.arrays:
        raise Refusal(f"`{path}` must hold a state dict (names and tensors), got an empty one.")
    guard.require_room(
        sum(prod(a.shape) * a.dtype.itemsize for a in found.arrays.values()), f"`{path}`"
    )
    remark = f" (its `{found.holder}`)" if found.holder else ""
    state = {n: a.mapped() if isinstance(a, InFile) else a.all() for n, a in found.arrays.items()}
    return state, remark


def _storage(tensor: Tensor) -> int:
    # Tied weights are one storage under several names, of which safetensors keeps one.
    if is_lazy(tensor) or tensor.numel() == 0 or tensor.device == torch.device("meta"):
        return -id(tensor)
    return tensor.untyped_storage().data_ptr()
