"""Data by a name, and whatever a user's loader gives, as inputs and targets."""

from collections.abc import Collection, Iterable, Mapping
from math import prod
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import Dataset, default_collate

from sigmascope.core import guard
from sigmascope.core.guard import Refusal, listed, nearest, told
from sigmascope.sources.batches import (
    Batch,
    as_batch,
    as_tensor,
    count,
    holds_arrays,
    joined,
    split,
)
from sigmascope.sources.callables import call, lent, named
from sigmascope.sources.datasets import SAMPLES, cifar10, digits, fashion_mnist, gaussian
from sigmascope.sources.files import read
from sigmascope.sources.samples import DIGITS, Data, choose, chosen_data

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
        # a random choice of a data set that is known by index
        data: Any = value
        try:
            rows = choose(len(data), None, samples=samples, generator=None)
            content = default_collate([data[int(row)] for row in rows])
        except Exception as error:  # a user's data set raises anything
            raise Refusal(f"Reading the data set {place} raised {told(error)}.") from error
        content = tuple(content) if isinstance(content, list) else content
        return pair(content, place=place, takes=takes)
    if isinstance(value, list) and not all(
        isinstance(v, tuple | Mapping) or holds_arrays(v) for v in value
    ):  # else each item is a batch by itself, and not a row of numbers
        return pair(tuple(value) if len(value) == 2 else value, place=place, takes=takes)
    if isinstance(value, Iterable) and not isinstance(value, str):
        # the first batches of an iterable, joined
        pairs: list[Pair] = []
        seen = 0
        for each in _items(value, place):
            batch = tuple(each) if isinstance(each, list) else each
            pairs.append(pair(batch, place=place, takes=takes))
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


def _items(batches: Iterable[Any], place: str) -> Iterable[Any]:
    try:
        yield from batches
    except Refusal:
        raise
    except Exception as error:  # a user's loader raises anything
        raise Refusal(f"Reading batches of {place} raised {told(error)}.") from error


# ------------------------------------------------------------------------------
# Data by what a name says: a data set, a query, a file, an object of Python.


def known(
    name: str,
    options: dict[str, str],
    samples: int | None,
    folder: Path | None,
    shape: tuple[int, ...] | None,
    generator: torch.Generator | None,
) -> Data:
    """A data set known by name."""
    if name == "gaussian":
        size = shape
        if "shape" in options:
            text = options["shape"]
            sizes = text.replace(",", "x").split("x")
            if not all(len(s) <= DIGITS and s.isdecimal() and int(s) > 0 for s in sizes):
                raise Refusal(
                    f"`shape` must read like 64 or 3x32x32, got `{text[:80]}`: name sizes of one "
                    "sample."
                )
            size = tuple(int(s) for s in sizes)
        if size is None:
            raise Refusal(
                "`gaussian` needs the shape of one sample: write `gaussian?shape=64` or "
                "`gaussian?shape=3x32x32`."
            )
        guard.require_room(4 * prod(size) * (samples or SAMPLES), f"`{name}` of this shape")
        sample = gaussian(shape=size, samples=samples, generator=generator)
    elif name == "digits":
        sample = digits(samples=samples, generator=generator)
    else:
        split = options.get("split", "train")
        if split not in ("train", "test"):
            raise Refusal(f"`split` of `{name}` must be train or test, got `{split}`.")
        read_set = fashion_mnist if name == "fashion-mnist" else cifar10
        sample = read_set(split=split, folder=folder, samples=samples, generator=generator)
    inputs, targets, words = sample
    return Data(inputs, targets, words, None if targets is None else 10)


def query_options(name: str, query: str) -> dict[str, str]:
    """The options after the question mark."""
    allowed = {"gaussian": ("shape",), "digits": ()}.get(name, ("split",))
    try:
        pairs = dict(parse_qsl(query, keep_blank_values=True, strict_parsing=bool(query)))
    except ValueError as error:
        raise Refusal(f"`{name}?{query}` must read `{name}?key=value`.") from error
    for key in pairs:
        if key not in allowed:
            has = f"it has {listed(allowed)}" if allowed else "it has none"
            raise Refusal(f"`{name}` has no option `{key}`; {has}.{nearest(key, allowed)}")
    return pairs


def from_file(
    path: Path, samples: int | None, generator: torch.Generator | None, takes: Collection[str]
) -> Data:
    """What a file holds."""
    content, place = read(path), f"`{path}`"
    if isinstance(content, Mapping):
        inputs, targets = split(content, place=place, strict=True, takes=takes)
    elif isinstance(content, tuple | list) and len(content) == 2:
        inputs, targets = content
    else:
        inputs, targets = content, None
    batch = as_batch(inputs, place=f"The inputs of {place}")
    return chosen_data(path.name, batch, matched(batch, targets, place=place), samples, generator)


def from_python(
    spec: str, samples: int | None, generator: torch.Generator | None, takes: Collection[str]
) -> Data:
    """What an object of Python gives."""
    with lent(generator), named(spec) as found:  # what it draws repeats with the seed
        value = call(found, spec) if callable(found) else found
        inputs, targets = gather(value, samples=samples, place=f"`{spec}`", takes=takes)
    return chosen_data(spec, inputs, targets, samples, generator)
