"""Names of the tensors within what a training loop saved: mappings in mappings, and much else."""

from collections.abc import Mapping
from typing import Any

from sigmascope.gate import Refusal, printable
from sigmascope.sources.checkpoints import WRAPPERS
from sigmascope.sources.stored.headers import shown
from sigmascope.sources.stored.pickles import Name, Note
from sigmascope.sources.stored.tensors import LeftOut

HOLDERS = (*WRAPPERS, "module", "net", "network", "params")  # where the weights may be kept
LOOPS = {  # what a training loop keeps beside the weights, whose tensors are none
    "optim",
    "optimizer",
    "optimizers",
    "optimizer_state",
    "optimizer_states",
    "optimizer_state_dict",
    "optim_state",
    "optim_state_dict",
    "scheduler",
    "lr_scheduler",
    "lr_schedulers",
    "scaler",
    "rng_state",
    "callbacks",
    "loops",
}
LONGEST = 4096  # letters of a name
DEEPEST = 32  # mappings within one another


def leaves(content: Any, place: str, tensor: type) -> tuple[dict[str, Any], list[LeftOut]]:
    """Every tensor by its name, with dots between the keys of mappings, and all that is none.

    Weights that are kept under `state_dict`, `model` and the like are found; what lies beside them
    is left out, one entry for each key, as is the state of an optimiser.

    Args:
        content: What a file holds.
        place: The file, for a refusal.
        tensor: The class of what is taken for a tensor.

    Raises:
        Refusal: If there is no mapping, or two tensors of one name.
    """
    if isinstance(content, tensor):
        content = {"tensor": content}
    if not isinstance(content, Mapping):
        raise Refusal(
            f"`{printable(place)}` must hold a state dict (names and tensors), got "
            f"{kind(content)}: save `model.state_dict()`."
        )
    if is_optimiser(content):
        raise Refusal(
            f"`{printable(place)}` must hold weights, got the state of an optimiser: name the file "
            "of `model.state_dict()`."
        )
    found, left = {}, []
    held = next((k for k in HOLDERS if _holds(content.get(k))), None)
    seen: set[int] = set()
    for key, value in content.items():
        if held is not None and key != held:
            left.append(LeftOut(str(key), f"Beside `{held}`, which holds the weights."))
        elif held is not None:
            _walk("", value, 0, (found, left, seen, tensor, place))
        elif key in LOOPS and not isinstance(value, tensor):
            left.append(LeftOut(str(key), "Of the training loop, not weights."))
        else:
            _walk(key_of(key), value, 0, (found, left, seen, tensor, place))
    return found, left


def kind(value: Any) -> str:
    """What a value is, in words."""
    if isinstance(value, Note | Name):
        name = value.name if isinstance(value, Note) else value.full
        return f"an object of `{shown(name)}`, whose code is not run"
    return f"a value of type {type(value).__name__}"


def is_optimiser(value: Any) -> bool:
    """Whether a value is what `torch.optim.Optimizer.state_dict` gives, whatever its key."""
    return (
        isinstance(value, Mapping)
        and isinstance(value.get("state"), Mapping)
        and isinstance(value.get("param_groups"), list)
    )


def _holds(value: Any) -> bool:
    """Whether a value is a mapping that may hold weights."""
    return isinstance(value, Mapping) and len(value) > 0 and not is_optimiser(value)


def key_of(key: Any) -> str:
    """A key of a mapping as a part of a name."""
    if isinstance(key, str):
        return key
    # a pickle may hold whole numbers whose digits take hours to write
    return str(key) if isinstance(key, int) and abs(key) < 1 << 64 else kind(key)


def _walk(name: str, value: Any, depth: int, into: tuple[Any, ...]) -> None:
    found, left, seen, tensor, place = into
    if len(name) > LONGEST:  # a long key of many tensors would be copied for each of them
        raise Refusal(
            f"`{printable(place)}` has names longer than {LONGEST} letters: is it damaged?"
        )
    if isinstance(value, tensor):
        if name in found:
            raise Refusal(f"`{printable(place)}` holds two tensors of the name `{shown(name)}`.")
        found[name] = value
    elif not isinstance(value, Mapping | list | tuple):
        left.append(LeftOut(name, f"Not a tensor but {kind(value)}."))
    elif is_optimiser(value):
        left.append(LeftOut(name, "The state of an optimiser, not weights."))
    elif id(value) in seen or depth > DEEPEST:
        left.append(LeftOut(name, "A mapping that is in the file under another name, or too deep."))
    else:
        seen.add(id(value))  # a mapping that holds itself twice, and so on, has endless names
        items = value.items() if isinstance(value, Mapping) else enumerate(value)
        for key, inner in items:
            _walk(f"{name}.{key_of(key)}" if name else key_of(key), inner, depth + 1, into)
        if not len(value):
            left.append(LeftOut(name, "Empty."))
