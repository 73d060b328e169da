"""Names of the tensors within what a training loop saved: mappings in mappings, and much else."""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from torch import Tensor

from sigmascope.checkpoints.arrays import Array
from sigmascope.checkpoints.pickles import Name, Note
from sigmascope.checkpoints.tensors import LeftOut
from sigmascope.core.guard import Refusal, printable, shown

# where the weights may be kept
HOLDERS = ("state_dict", "model_state_dict", "model", "module", "net", "network", "params")
PREFIXES = ("module.", "_orig_mod.")  # DistributedDataParallel, torch.compile
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
ODD = {  # tensors that are no arrays, by what a pickle calls to build them
    "torch._utils._rebuild_sparse_tensor": "a sparse tensor: save `to_dense()` of it",
    "torch._utils._rebuild_nested_tensor": "a nested tensor: save its parts",
    "torch._utils._rebuild_qtensor": "a tensor quantised by torch: save `dequantize()` of it",
    "torch._utils._rebuild_meta_tensor_no_storage": "on the meta device, without numbers",
}
LONGEST = 4096  # letters of a name
DEEPEST = 32  # mappings within one another


class StateDict(NamedTuple):
    """What a file of a training loop holds.

    Attributes:
        arrays: By name, with dots between the keys of mappings.
        left_out: What is none.
        odd: Of that what lies among the weights, and not beside them.
        holder: The key that the weights are kept under; empty where they are the file.
    """

    arrays: dict[str, Array]
    left_out: list[LeftOut]
    odd: list[LeftOut]
    holder: str


def state_dict(
    content: Any, location: str, *, taken: Callable[[Any], Any] = lambda value: value
) -> StateDict:
    """Every array of a file by its name, and all that is none.

    Weights that are kept under `state_dict`, `model` and the like are found; what lies beside them
    is left out, one entry for each key, as is the state of an optimizer.

    Args:
        content: What the file holds.
        location: The file, for a refusal.
        taken: What is read in the place of a value: an array for a tensor, a mapping for a module.

    Raises:
        Refusal: If there is no mapping, or two tensors of one name.
    """
    if isinstance(content, Array):
        content = {"tensor": content}
    if not isinstance(content, Mapping):
        raise Refusal(
            f"`{printable(location)}` must hold a state dict (names and tensors), got "
            f"{kind(content)}: save `model.state_dict()`."
        )
    if _is_optimizer(content):
        raise Refusal(
            f"`{printable(location)}` must hold weights, got the state of an optimizer: name "
            "`model.state_dict()`, or the file of it."
        )
    holds = lambda value: isinstance(value, Mapping) and value and not _is_optimizer(value)
    holder = next((k for k in HOLDERS if holds(taken(content.get(k)))), "")
    found = StateDict({}, [], [], holder)
    seen: set[int] = set()

    def walk(name: str, value: Any, depth: int) -> None:
        if len(name) > LONGEST:  # a long key of many tensors would be copied for each of them
            raise Refusal(
                f"`{printable(location)}` has names longer than {LONGEST} letters: is it damaged?"
            )
        why, given = "", value
        value = taken(given)
        if isinstance(value, LeftOut):
            why = value.why
        elif isinstance(value, Array):
            if name in found.arrays:
                raise Refusal(
                    f"`{printable(location)}` holds two tensors of the name `{shown(name)}`."
                )
            found.arrays[name] = value
        elif not isinstance(value, Mapping | list | tuple):
            why = f"Not a tensor but {kind(value)}."
            if isinstance(value, Note) and value.name in ODD:
                why = f"No array of numbers, but {ODD[value.name]}."
        elif _is_optimizer(value):
            why = "The state of an optimizer, not weights."
        elif id(given) in seen or depth > DEEPEST:
            why = "A mapping that was met under another name, or lies too deep."
        else:
            seen.add(id(given))  # a mapping that holds itself twice, and so on, has endless names
            for key, inner in value.items() if isinstance(value, Mapping) else enumerate(value):
                walk(f"{name}.{key_of(key)}" if name else key_of(key), inner, depth + 1)
            why = "" if len(value) else "Empty."
        if why:
            found.odd.append(LeftOut(name, why))
            found.left_out.append(found.odd[-1])

    for key, value in content.items():
        if holder and key != holder:
            found.left_out.append(_beside(key, taken(value), holder))
        elif holder:
            walk("", value, 0)
        elif key in LOOPS and not isinstance(taken(value), Array):
            found.left_out.append(LeftOut(str(key), "Of the training loop, not weights."))
        else:
            walk(key_of(key), value, 0)
    return found


def _beside(key: Any, value: Any, holder: str) -> LeftOut:
    """What lies beside the weights; other weights, as their running means, can be scanned, too."""
    why = f"Beside `{holder}`, which holds the weights."
    inside = value.values() if isinstance(value, Mapping) and not _is_optimizer(value) else ()
    if any(isinstance(one, Array | Tensor) for one in inside):
        own = shown(repr(key_of(key)))
        why = f"{why[:-1]}; to scan it, hand in that mapping: `torch.load(...)[{own}]`."
    return LeftOut(str(key), why)


def kind(value: Any) -> str:
    """What a value is, in words."""
    if isinstance(value, Note | Name):
        return f"an object of `{shown(value.name)}`, whose code is not run"
    return f"a value of type {type(value).__name__}"


def key_of(key: Any) -> str:
    """A key of a mapping as a part of a name."""
    if isinstance(key, str):
        return key
    # a pickle may hold whole numbers whose digits take hours to write
    return str(key) if isinstance(key, int) and abs(key) < 1 << 64 else kind(key)


def _is_optimizer(value: Any) -> bool:
    """Whether a value is what `torch.optim.Optimizer.state_dict` gives, whatever its key."""
    return (
        isinstance(value, Mapping)
        and isinstance(value.get("state"), Mapping)
        and isinstance(value.get("param_groups"), list)
    )
