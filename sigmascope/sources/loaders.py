"""Whatever a user's loader gives, as inputs and targets."""

from collections.abc import Collection, Iterable, Mapping
from typing import Any

import numpy as np
from torch import Tensor
from torch.utils.data import Dataset, default_collate

from sigmascope.guard import Refusal
from sigmascope.sources.batches import (
    Batch,
    as_batch,
    as_tensor,
    count,
    holds_arrays,
    joined,
    split,
)
from sigmascope.sources.refusals import told
from sigmascope.sources.samples import choose

Pair = tuple[Batch, Tensor | None]


def gather(value: Any, *, samples: int | None, place: str, takes: Collection[str] = ()) -> Pair:
    """Inputs and targets of a tensor, an array, a pair, a mapping, a data set or a loader.

    A tuple of two is (inputs, targets). A data set is sampled at random with seed 0; of any other
    iterable, as of a DataLoader, the first batches are taken until there are enough samples.
    A mapping whose every key but the targets' is in `takes`, the model's arguments, stays one.

    Raises:
        Refusal: If it is none of these, holds no samples, or raises while it is read.
    """
    if isinstance(value, Tensor | np.ndarray | Mapping | tuple):
        return pair(value, place=place, takes=takes)
    if isinstance(value, Dataset) and not isinstance(value, Iterable):
        return _sampled(value, samples, place, takes)
    if isinstance(value, list) and not all(
        isinstance(v, tuple | Mapping) or holds_arrays(v) for v in value
    ):  # else each item is a batch by itself, and not a row of numbers
        return pair(tuple(value) if len(value) == 2 else value, place=place, takes=takes)
    if isinstance(value, Iterable) and not isinstance(value, str):
        return _iterated(value, samples, place, takes)
    raise Refusal(
        f"{place} must give (inputs, targets), a mapping, a tensor or an iterable of batches, got "
        f"{'None' if value is None else type(value).__name__}."
    )


def pair(value: Any, *, place: str, takes: Collection[str] = ()) -> Pair:
    """Inputs and targets of one batch; a mapping is split by its keys.

    Raises:
        Refusal: If it is not one batch, or its targets do not match its inputs.
    """
    if isinstance(value, Mapping):
        inputs, targets = split(value, place=place, strict=False, takes=takes)
    elif isinstance(value, tuple) and len(value) == 2:
        inputs, targets = value
    elif isinstance(value, tuple) and len(value) != 1:
        raise Refusal(
            f"{place} gave a tuple of {len(value)}; give (inputs, targets), where inputs may "
            "itself be a tuple."
        )
    else:
        inputs, targets = (value[0] if isinstance(value, tuple) else value), None
    batch = as_batch(inputs, place=f"The inputs of {place}")
    return batch, matched(batch, targets, place=place)


def matched(batch: Batch, targets: Any, *, place: str) -> Tensor | None:
    """The targets as a tensor with one row a sample, or nothing.

    Raises:
        Refusal: If they are not numbers, or not as many as the samples.
    """
    if targets is None:
        return None
    found = as_tensor(targets, place=f"The targets of {place}")
    if len(found) != count(batch):
        raise Refusal(
            f"{place} must have as many targets as inputs, got {len(found)} targets for "
            f"{count(batch)} inputs."
        )
    return found


def _sampled(data: Any, samples: int | None, place: str, takes: Collection[str]) -> Pair:
    """A random choice of a data set that is known by index."""
    try:
        rows = choose(len(data), None, samples=samples, generator=None)
        content = default_collate([data[int(row)] for row in rows])
    except Exception as error:  # a user's data set raises anything
        raise Refusal(f"Reading the data set {place} raised {told(error)}.") from error
    content = tuple(content) if isinstance(content, list) else content
    return pair(content, place=place, takes=takes)


def _iterated(
    batches: Iterable[Any], samples: int | None, place: str, takes: Collection[str]
) -> Pair:
    """The first batches of an iterable, joined."""
    pairs: list[Pair] = []
    seen = 0
    for value in _items(batches, place):
        value = tuple(value) if isinstance(value, list) else value
        pairs.append(pair(value, place=place, takes=takes))
        seen += count(pairs[-1][0])
        if samples is not None and seen >= samples:
            break
    if not pairs:
        raise Refusal(f"{place} gave no batch at all.")
    inputs = joined([p[0] for p in pairs], place=place)
    targets = [p[1] for p in pairs if p[1] is not None]
    if len(targets) != len(pairs):
        return inputs, None
    whole = joined(targets, place=place)
    assert isinstance(whole, Tensor)
    return inputs, whole


def _items(batches: Iterable[Any], place: str) -> Iterable[Any]:
    try:
        yield from batches
    except Refusal:
        raise
    except Exception as error:  # a user's loader raises anything
        raise Refusal(f"Reading batches of {place} raised {told(error)}.") from error
