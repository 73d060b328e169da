"""Batches and outputs of any structure, as one call and one tensor."""

from collections.abc import Callable, Iterator, Mapping
from copy import copy
from dataclasses import dataclass, fields, is_dataclass
from typing import Any

import torch
from torch import Tensor, nn

from sigmascope.gate import Refusal, require_dense

Batch = Tensor | tuple[Any, ...] | list[Any] | Mapping[str, Any]
PREFERRED = ("logits", "last_hidden_state", "output", "out", "prediction_logits", "pred")


def tensors(value: object) -> Iterator[Tensor]:
    """Every tensor inside nested tuples, lists, mappings and dataclasses."""
    if isinstance(value, Tensor):
        yield value
    elif isinstance(value, Mapping):
        for part in value.values():
            yield from tensors(part)
    elif _is_record(value):
        yield from tensors(_fields(value))
    elif isinstance(value, tuple | list):
        for part in value:
            yield from tensors(part)


def mapped(value: Any, change: Any) -> Any:
    """The same structure with `change` applied to every tensor."""
    if isinstance(value, Tensor):
        return change(value)
    if isinstance(value, Mapping):
        return {key: mapped(part, change) for key, part in value.items()}
    if _is_record(value):
        other = copy(value)
        for name, part in _fields(value).items():
            object.__setattr__(other, name, mapped(part, change))  # frozen ones too
        return other
    if isinstance(value, tuple | list):
        parts = [mapped(part, change) for part in value]
        named = isinstance(value, tuple) and type(value) is not tuple
        return type(value)(*parts) if named else tuple(parts)
    return value


def _is_record(value: object) -> bool:
    return is_dataclass(value) and not isinstance(value, type | nn.Module)


def _fields(record: Any) -> dict[str, Any]:
    return {f.name: getattr(record, f.name) for f in fields(record) if hasattr(record, f.name)}


def copied(batch: Batch) -> Batch:
    """The same with tensors of its own, still on the tape; one that comes twice comes twice."""
    made: dict[int, Tensor] = {}

    def own(t: Tensor) -> Tensor:
        if id(t) not in made:
            made[id(t)] = t.clone()
        return made[id(t)]

    return mapped(batch, own)


def prepared(model: nn.Module, batch: Batch) -> Batch:
    """The batch on the model's device, its floating tensors in the model's floating dtype.

    Raises:
        Refusal: If that dtype cannot hold a number of the batch.
    """
    for tensor in tensors(batch):
        require_dense(tensor, "`batch`")
    like = _like(model)
    if like is None:
        return batch

    def moved(t: Tensor) -> Tensor:
        if not t.is_floating_point():
            return t.detach().to(like.device)
        cast = t.detach().to(like.device, like.dtype)
        if cast.dtype != t.dtype and bool((~cast.isfinite()).sum() > (~t.isfinite()).sum()):
            raise Refusal(
                f"`batch` must fit {like.dtype}, the precision of the model, got "
                f"{float(t.abs().max()):.3g}. Scale the data, or measure the model in {t.dtype}."
            )
        return cast

    return mapped(batch, moved)


def beside(model: nn.Module, targets: Any) -> Any:
    """The targets where the model lies, if it lies elsewhere than in the memory of the CPU.

    What lies on another device was put there by somebody who knows why.
    """
    like = _like(model)
    if like is None or like.device.type == "cpu":
        return targets
    if not any(t.device.type == "cpu" for t in tensors(targets)):
        return targets
    return mapped(targets, lambda t: t.to(like.device) if t.device.type == "cpu" else t)


def _like(model: nn.Module) -> Tensor | None:
    """A parameter of the precision in which the model computes, where it computes."""
    # no operation takes numbers of eight bits, but for some products with weights of such
    return next((p for p in model.parameters() if p.is_floating_point() and p.itemsize > 1), None)


def sample_count(batch: Batch, *, batch_dim: int) -> int:
    """How many samples the batch holds: the size of dimension `batch_dim` of its first tensor."""
    first = next(tensors(batch), None)
    if first is None:
        raise Refusal(
            f"`batch` must hold a tensor, got {type(batch).__name__} without any. "
            "Pass a tensor, a tuple of arguments or a mapping of keyword arguments."
        )
    if not 0 <= batch_dim < first.ndim:
        raise Refusal(
            f"`batch` must have its samples along dimension {batch_dim}, got a tensor of shape "
            f"{tuple(first.shape)}. Add the dimension with unsqueeze, or say "
            "`batch_dim=` (`--batch-dim`)."
        )
    return first.shape[batch_dim]


def pieces(batch: Batch, *, size: int, batch_dim: int) -> Iterator[tuple[Batch, slice]]:
    """The batch in pieces of at most `size` samples, each with the samples it holds.

    A tensor takes part if its dimension `batch_dim` is as long as the batch; any other value is
    passed whole to every piece.
    """
    count = sample_count(batch, batch_dim=batch_dim)
    for start in range(0, count, size):
        part = slice(start, min(start + size, count))

        def cut(t: Tensor, part: slice = part) -> Tensor:
            whole = t.ndim <= batch_dim or t.shape[batch_dim] != count
            return t if whole else t.narrow(batch_dim, part.start, part.stop - part.start)

        yield mapped(batch, cut), part


def chosen(batch: Batch, rows: Tensor, *, batch_dim: int = 0) -> Batch:
    """Some samples of a batch, in every tensor that is as long as it.

    Args:
        batch: A tensor, a tuple or a mapping.
        rows: Indices of the samples.
        batch_dim: Where the batch has them.
    """
    count = sample_count(batch, batch_dim=batch_dim)

    def pick(t: Tensor) -> Tensor:
        whole = t.ndim <= batch_dim or t.shape[batch_dim] != count
        return t if whole else t.index_select(batch_dim, rows.to(t.device))

    return mapped(batch, pick)


@dataclass(slots=True)
class Runs:
    """How often any model was run on a batch.

    Attributes:
        count: So often.
    """

    count: int = 0


RUNS = Runs()


def call(model: Callable[..., Any], batch: Batch) -> Any:
    """The model's output on a batch: one argument, a tuple of them, or keyword arguments.

    The model gets a copy, for it may work in place: no run may spoil the next one, or what the user
    passed. That is a small part of what a forward pass costs, and no counter tells of every write.
    """
    RUNS.count += 1
    with torch.set_grad_enabled(torch.is_grad_enabled()):  # which a forward pass may leave off
        return _called(model, copied(batch))


def _called(model: Callable[..., Any], batch: Batch) -> Any:
    if isinstance(batch, Tensor):
        return model(batch)
    if isinstance(batch, Mapping):
        return model(**batch)
    return model(*batch)


def as_tensor(output: Any) -> tuple[Tensor, str]:
    """The one tensor of an output that is studied, and the rule that chose it.

    A tensor is itself; of a mapping (or a Hugging Face output) or a dataclass the first of
    `PREFERRED` that it holds, else its first floating tensor; of a tuple its first floating tensor.
    """
    output = _fields(output) if _is_record(output) and not isinstance(output, Mapping) else output
    if isinstance(output, Tensor):
        chosen, rule = output, "the output tensor"
    elif isinstance(output, Mapping):
        floating = {k: v for k, v in output.items() if isinstance(v, Tensor) and _floating(v)}
        key = next((k for k in PREFERRED if k in floating), next(iter(floating), None))
        chosen, rule = (None, "") if key is None else (floating[key], f"output[{key!r}]")
    else:
        chosen = next((t for t in tensors(output) if _floating(t)), None)
        rule = "the first floating tensor of the output"
    if chosen is None or not _floating(chosen):
        raise Refusal(
            f"The model must return a floating tensor, or a tuple or mapping that holds one, got "
            f"{_seen(output if chosen is None else chosen)}. "
            "Return the logits or predictions from forward."
        )
    return chosen, rule


def _seen(output: object) -> str:
    """Kind of an output that will not do."""
    if isinstance(output, Tensor):
        return f"a {output.dtype} tensor of shape {tuple(output.shape)}"
    return "None" if output is None else type(output).__name__


def _floating(t: Tensor) -> bool:
    return t.is_floating_point() and t.numel() > 0
