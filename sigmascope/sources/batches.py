"""Batches: a tensor, a tuple of tensors or a mapping of tensors, one row a sample."""

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from sigmascope.core import guard
from sigmascope.core.guard import Refusal, listed
from sigmascope.models.samples import native

Batch = Tensor | tuple[Tensor, ...] | Mapping[str, Tensor]

# Lower case; a mapping that has one of each is read as inputs and targets.
INPUT_KEYS = (
    "x", "inputs", "input", "images", "image", "data", "features", "x_train", "train_images",
)  # fmt: skip
TARGET_KEYS = (
    "y", "targets", "target", "labels", "label", "classes", "y_train", "train_labels",
)  # fmt: skip
# Names by which models, mostly those of Hugging Face, take their arguments.
ARGUMENT_KEYS = ("input_ids", "pixel_values", "inputs_embeds", "input_values", "input_features")


def as_tensor(value: Any, *, place: str) -> Tensor:
    """A tensor of the numbers in `value`, detached, at least one of them.

    Raises:
        Refusal: If they are not numbers, or if there are none.
    """
    if isinstance(value, np.ndarray):
        value = native(value, place)
    try:
        tensor = torch.as_tensor(value).detach()
    except (TypeError, ValueError, RuntimeError) as error:
        kind, advice = "None" if value is None else f"a value of type {type(value).__name__}", ""
        if isinstance(value, np.ndarray):
            kind = f"an array of {value.dtype}"
            if value.dtype.kind in "US":
                advice = " Number them: `numpy.unique(names, return_inverse=True)[1]`."
        raise Refusal(f"{place} must hold numbers, got {kind}.{advice}") from error
    guard.require_dense(tensor, place)
    if tensor.dtype in (torch.uint16, torch.uint32, torch.uint64):  # of which torch computes little
        tensor = tensor.to(torch.int64)
        if bool((tensor < 0).any()):
            raise Refusal(f"{place} must fit 63 bits, got larger numbers: subtract their least.")
    if tensor.ndim == 0:
        raise Refusal(f"{place} must have one row a sample, got the single number {tensor.item()}.")
    if tensor.numel() == 0:
        raise Refusal(
            f"{place} must hold at least one sample, but it is empty: its shape is "
            f"{tuple(tensor.shape)}. Give some rows."
        )
    return tensor


def as_batch(value: Any, *, place: str) -> Batch:
    """`value` with every part as a tensor, all of the same number of rows.

    Raises:
        Refusal: If a part is not made of numbers, or if the numbers of rows differ.
    """
    if isinstance(value, Mapping):
        batch: Batch = {str(k): as_tensor(v, place=f"{place}[{k!r}]") for k, v in value.items()}
    elif isinstance(value, tuple) or holds_arrays(value):
        batch = tuple(as_tensor(v, place=f"{place}[{i}]") for i, v in enumerate(value))
    else:
        batch = as_tensor(value, place=place)
    rows = {len(part) for part in parts(batch)}
    if len(rows) != 1:
        several = " and ".join(map(str, sorted(rows)))
        raise Refusal(
            f"{place} must have one row a sample in every part, got parts of {several} rows. "
            "What has no samples, as the edges of a graph, goes into the model: give one that "
            "keeps it and takes the rest."
        )
    return batch


def parts(batch: Batch) -> list[Tensor]:
    """The tensors of a batch."""
    if isinstance(batch, Tensor):
        return [batch]
    return list(batch.values()) if isinstance(batch, Mapping) else list(batch)


def changed(batch: Batch, change: Callable[[Tensor], Tensor]) -> Batch:
    """The same kind of batch with `change` applied to every part."""
    if isinstance(batch, Tensor):
        return change(batch)
    if isinstance(batch, Mapping):
        return {name: change(part) for name, part in batch.items()}
    return tuple(change(part) for part in batch)


def count(batch: Batch) -> int:
    """Samples in a batch."""
    return len(parts(batch)[0])


def take(batch: Batch, rows: Tensor) -> Batch:
    """Some samples of a batch."""
    return changed(batch, lambda part: part[rows])


def joined(batches: Sequence[Batch], *, place: str) -> Batch:
    """Several batches as one.

    Raises:
        Refusal: If they differ in kind, or in shape beyond the number of samples.
    """
    first = batches[0]
    try:
        if isinstance(first, Tensor):
            return torch.cat([*batches])  # type: ignore[list-item]
        if isinstance(first, Mapping):
            return {k: torch.cat([b[k] for b in batches]) for k in first}  # type: ignore[index]
        columns = zip(*batches, strict=True)
        return tuple(torch.cat(column) for column in columns)  # type: ignore[arg-type]
    except (TypeError, ValueError, KeyError, RuntimeError) as error:
        raise Refusal(
            f"The batches of {place} cannot be joined ({error}); give them one shape each, or ask "
            "for no more samples than the first batch has."
        ) from error


def split(
    content: Mapping[str, Any], *, place: str, strict: bool, takes: Collection[str] = ()
) -> tuple[Any, Any]:
    """Inputs and targets (or none) of a mapping, by the names of its keys.

    Args:
        content: What was read.
        place: Its name in a refusal.
        strict: Whether keys that are not known are refused, or taken for arguments of the model.
        takes: Arguments of the model; where all keys beside the targets are, they go by name.

    Raises:
        Refusal: If the inputs cannot be told.
    """
    if not content:
        raise Refusal(f"{place} is empty.")
    inputs = [k for k in content if str(k).lower() in INPUT_KEYS]
    targets = [k for k in content if str(k).lower() in TARGET_KEYS]
    rest = {k: v for k, v in content.items() if k not in targets}
    if len(rest) > 1 and len(targets) < 2 and all(str(k) in takes for k in rest):
        return rest, content[targets[0]] if targets else None
    if len(inputs) > 1 or len(targets) > 1:
        twice = inputs if len(inputs) > 1 else targets
        raise Refusal(f"{place} has {listed(twice)}, any of which may be meant: leave one of them.")
    target = content[targets[0]] if targets else None
    if inputs:
        return content[inputs[0]], target
    if len(rest) == 1 and strict and not set(rest) & set(ARGUMENT_KEYS):
        return next(iter(rest.values())), target
    if rest and (not strict or set(rest) & set(ARGUMENT_KEYS)):
        return rest, target
    raise Refusal(
        f"{place} must name its inputs `x`, `inputs`, `images` or `data` (and its targets `y`, "
        f"`targets` or `labels`); it has {listed(content)}."
    )


def holds_arrays(value: Any) -> bool:
    """Whether `value` is a list of arrays, and not of numbers."""
    return isinstance(value, list) and any(isinstance(v, Tensor | np.ndarray) for v in value)
