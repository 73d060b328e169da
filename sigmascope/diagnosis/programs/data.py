"""Samples of whatever holds a user's data: a batch, a data set, a loader."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sized
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import BatchSampler, DataLoader, SequentialSampler, default_collate

from sigmascope.core.guard import Refusal, came, random_states, require_room
from sigmascope.models.samples import Batch, chosen, mapped, native, sample_count, tensors

LABELS = ("labels", "label", "targets", "target", "y")
FEW = 2  # parts of an item that are inputs and targets


@dataclass(frozen=True, slots=True)
class Taken:
    """Samples that were taken of a user's data.

    Attributes:
        batch: What the model takes.
        targets: Theirs; None where there are none.
        total: How many samples there are in all; None where that cannot be told.
        size: Samples in a batch of the loader; None where there is no loader.
    """

    batch: Batch
    targets: Any
    total: int | None
    size: int | None = None


@dataclass(frozen=True, slots=True)
class Mapped:
    """A user's data with other targets.

    Attributes:
        data: As for `taken`.
        change: What is made of the targets.
    """

    data: Any
    change: Callable[[Tensor], Tensor]


def taken(data: Any, *, samples: int, batch_dim: int = 0) -> Taken:
    """Samples of a batch `(inputs, targets)`, a data set, or a loader.

    Args:
        data: Inputs, a pair of inputs and targets, a mapping that may hold `labels`, a data set
            that gives such for each index, or an iterable of such batches; of tensors, arrays of
            NumPy, or frames and columns of pandas. Random states are left as they are.
        samples: How many, where there are more; drawn with seed 0 where they can be chosen.
        batch_dim: Where batches have their samples.

    Raises:
        Refusal: If it is none of these, or holds nothing.
    """
    if isinstance(data, Mapped):
        inner = taken(data.data, samples=samples, batch_dim=batch_dim)
        return replace(inner, targets=data.change(inner.targets))
    if samples < 1:
        raise Refusal(f"`samples` must be 1 or more, got {samples}. 128 are usual.")
    if isinstance(data, str | bytes):
        raise Refusal(
            "`data` must be a batch (inputs, targets), a data set or a loader, got "
            f"{came(data)}. A data set of that name is opened by `open_data(...)`."
        )
    with random_states():  # loaders draw, and so may data sets
        if isinstance(data, DataLoader):
            try:
                total = len(data.dataset)  # type: ignore[arg-type]
            except TypeError:  # a stream
                total = None
            try:
                given: Iterable[Any] = data
                if as_they_lie(data):  # the first may be of one kind: batches from all over
                    draw = torch.Generator().manual_seed(0)
                    rows = torch.randperm(count_of(data), generator=draw)[:samples]
                    parts = (part.tolist() for part in rows.split(data.batch_size or 1))
                    given = (data.collate_fn([data.dataset[i] for i in part]) for part in parts)
                found = _of_iterable(given, total, samples, batch_dim)
            except Refusal:  # neighbours may go together where others do not: rows of one length
                found = _of_iterable(data, total, samples, batch_dim)
            return replace(found, size=data.batch_size or found.size)
        if isinstance(data, Tensor | tuple | list | Mapping) or hasattr(data, "inputs"):
            # the latter is what `sources.open_data` gives
            held: Any = data
            inner = (held.inputs, held.targets) if hasattr(data, "inputs") else parted(data)
            inner = read(inner[0]), read(inner[1])
            count = sample_count(inner[0], batch_dim=batch_dim)
            return Taken(*_fewer(*inner, count, samples, batch_dim), count)
        if hasattr(data, "__getitem__") and isinstance(data, Sized):
            total = len(data)
            if not total:
                raise Refusal("`data` must hold samples, got a data set of none.")
            rows = torch.randperm(total, generator=torch.Generator().manual_seed(0))[:samples]
            held = data
            items = [*_guarded(held[int(i)] for i in rows)]
            try:
                joined = default_collate(items)
            except (TypeError, RuntimeError) as error:
                words = " ".join(str(error).split())[:200]
                raise Refusal(
                    f"Samples of the data set must be joined to a batch, torch says: {words}. Pass "
                    "a DataLoader with a `collate_fn`."
                ) from error
            batch, targets = parted(joined)
            return Taken(batch, _numbers(targets), total)
        if isinstance(data, Iterable):
            return _of_iterable(data, None, samples, batch_dim)
    raise Refusal(
        "`data` must be a batch (inputs, targets), a data set or a loader, got "
        f"{came(data)}. Pass `(inputs, targets)`."
    )


def read(value: Any) -> Any:
    """The same structure with arrays of NumPy, and frames and columns of pandas, as tensors."""
    if isinstance(value, Mapping):
        return {name: read(part) for name, part in value.items()}
    if type(value) in (tuple, list):
        return type(value)(map(read, value))
    if hasattr(value, "to_numpy"):
        value = value.to_numpy()
    if not isinstance(value, np.ndarray):
        return value
    if value.dtype.kind not in "biufc":
        raise Refusal(
            f"Arrays of `data` must hold numbers, got one of {value.dtype}. Number what is none: "
            "`numpy.unique(words, return_inverse=True)[1]`."
        )
    value = native(value, "`data`")
    if not value.flags.writeable:  # torch would let it be written
        require_room(value.nbytes, "`data`")
        value = value.copy()
    return torch.from_numpy(value)


def parted(item: Any) -> tuple[Any, Any]:
    """Inputs and targets of what a loader or a data set gives."""
    if isinstance(item, Mapping):
        key = next((k for k in LABELS if k in item), None)
        if key is None:
            return item, None
        return {k: v for k, v in item.items() if k != key}, item[key]
    if isinstance(item, tuple | list) and len(item) == FEW:
        return item[0], item[1]
    if isinstance(item, tuple | list) and len(item) > FEW:
        return tuple(item[:-1]), item[-1]
    if isinstance(item, tuple | list) and len(item) == 1:
        return item[0], None
    return item, None


def _fewer(
    batch: Batch, targets: Any, count: int, samples: int, batch_dim: int
) -> tuple[Batch, Any]:
    if count <= samples:
        return batch, targets
    rows = torch.randperm(count, generator=torch.Generator().manual_seed(0))[:samples]
    return chosen(batch, rows, batch_dim=batch_dim), rows_of(targets, rows, count=count)


def rows_of(value: Any, rows: Tensor, *, count: int) -> Any:
    """Some rows of every tensor that has one for each sample; others as they are.

    Args:
        value: A structure of tensors.
        rows: Which.
        count: Of samples.
    """
    own = lambda t: chosen(t, rows.to(t.device)) if t.ndim and len(t) == count else t
    return mapped(value, own)


def as_they_lie(data: Any) -> bool:
    """Whether it is a loader that gives the samples of a data set one after the other."""
    return (
        isinstance(data, DataLoader)
        and type(data.batch_sampler) is BatchSampler
        and type(data.sampler) is SequentialSampler
        and hasattr(data.dataset, "__getitem__")
        and isinstance(data.dataset, Sized)
    )


def count_of(loader: DataLoader[Any]) -> int:
    """How many samples its data set has, of one for which `as_they_lie` holds."""
    assert isinstance(loader.dataset, Sized)
    return len(loader.dataset)


def _of_iterable(data: Iterable[Any], total: int | None, samples: int, batch_dim: int) -> Taken:
    parts: list[tuple[Any, Any]] = []
    count = 0
    for item in islice(_guarded(data), samples):
        parts.append(read(parted(item)))
        count += sample_count(parts[-1][0], batch_dim=batch_dim)
        if count >= samples:
            break
    if not parts:
        raise Refusal("`data` must give batches, got an iterable that gives none.")
    size = sample_count(parts[0][0], batch_dim=batch_dim)
    parts = [p for p in parts if _form(p, batch_dim) == _form(parts[0], batch_dim)]
    batch = together([b for b, _ in parts], batch_dim)
    targets = together([t for _, t in parts], 0)
    batch, targets = _fewer(batch, targets, sample_count(batch, batch_dim=batch_dim), samples,
                            batch_dim)  # fmt: skip
    return Taken(batch, _numbers(targets), total, size)


def _guarded(data: Iterable[Any]) -> Iterator[Any]:
    """The same items; what a user's loader raises is said as it is."""
    try:
        yield from data
    except Refusal:
        raise
    except Exception as error:  # a user's loader raises anything
        words = " ".join(str(error).split())[:200]
        raise Refusal(
            f"The loader must give batches, got {type(error).__name__}: {words}. Run "
            "`next(iter(loader))` by itself."
        ) from error


def _form(part: tuple[Any, Any], dim: int) -> list[list[int]]:
    """Sizes of the tensors of a batch, but for its samples: ragged sequences differ in them."""
    return [
        [n for d, n in enumerate(t.shape) if d != along]
        for along, whole in zip((dim, 0), part, strict=True)
        for t in tensors(whole)
    ]


def together(parts: list[Any], dim: int = 0) -> Any:
    """Batches of one form, one behind the other.

    Args:
        parts: Structures of tensors.
        dim: Where they have their samples.
    """
    first = parts[0]
    if isinstance(first, Tensor):
        return torch.cat(parts, dim) if first.ndim else torch.stack(parts)
    if isinstance(first, Mapping):
        return {k: together([p[k] for p in parts], dim) for k in first}
    if isinstance(first, tuple | list):
        return tuple(together([p[i] for p in parts], dim) for i in range(len(first)))
    return first


def _numbers(targets: Any) -> Any:
    if targets is None or isinstance(targets, Tensor | Mapping | tuple):
        return targets
    try:
        return torch.as_tensor(targets)
    except (TypeError, ValueError, RuntimeError) as error:
        raise Refusal(
            f"Targets must be numbers, got {came(targets)}. Turn words into classes: 0, 1, 2, …."
        ) from error
