"""Batches cut to the samples whose representations fit in the memory that is allowed."""

from typing import Any

import torch
from torch import Tensor, nn

from sigmascope.gate import Refusal, allowed, size_words
from sigmascope.probes import Subject
from sigmascope.probes.samples import Batch, chosen, mapped, tensors
from sigmascope.records import Skipped

ROWS = 0.4  # of the memory allowed, for what layers read and write on all samples
SURE = 1 / 64  # of it, below which nothing is weighed


def cut(
    model: nn.Module, batch: Batch, targets: Any, batch_dim: int
) -> tuple[Batch, Any, list[Skipped]]:
    """As many of the first samples as fit, with their targets; and which are left out.

    Args:
        model: What they are run through.
        batch: All samples.
        targets: Theirs; tensors that are as long as the batch, or a multiple, are cut.
        batch_dim: Where the batch has its samples.

    Raises:
        Refusal: If not even one sample fits, with what it needs and what is allowed.

    Cost: a forward pass of one sample, where the batch is large for the memory allowed.
    """
    first = next(tensors(batch), None)
    if first is None or first.ndim <= batch_dim or not first.numel():
        return batch, targets, []  # refused, with its words, by `Subject`
    count = first.shape[batch_dim]
    if count < 2 or _bound(model, first) <= SURE * allowed():
        return batch, targets, []
    try:
        one = chosen(batch, torch.tensor([0]), batch_dim=batch_dim)
        held = Subject(model, one, batch_dim=batch_dim).rows_held
    except Refusal:  # one sample cannot be run by itself; all are run together, or refused
        return batch, targets, []
    most = _most(held)
    if most >= count:
        return batch, targets, []
    why = f"{_needs(held)}: the first {most} were measured; allow more by `memory=` (`--memory`)"
    told = Skipped("(samples)", f"{count - most} of {count} samples", why)
    kept = chosen(batch, torch.arange(most), batch_dim=batch_dim)
    return kept, mapped(targets, lambda t: _shortened(t, count, most)), [told]


def _most(held: int) -> int:
    """How many samples of so many bytes fit."""
    most = int(ROWS * allowed() / max(held, 1))
    if most < 1:
        raise Refusal(
            f"`memory` must allow for one sample, got {size_words(allowed())}: {_needs(held)}. "
            "Allow more by `memory=` (`--memory`), or pass smaller samples."
        )
    return most


def _needs(held: int) -> str:
    return (
        f"what layers read and write takes {size_words(held)} for each sample, and "
        f"{size_words(int(ROWS * allowed()))} of the {size_words(allowed())} allowed are for that"
    )


def _bound(model: nn.Module, first: Tensor) -> int:
    """Bytes that weights as wide as the model's would write, one row for each number of the batch.

    More than they do, but where a model makes more positions than it reads.
    """
    widths = sum(sum(p.shape[:2]) for p in model.parameters() if p.ndim > 1)
    return first.numel() * widths * 4


def _shortened(t: Tensor, count: int, most: int) -> Tensor:
    if t.ndim and len(t) and len(t) % count == 0:
        return t[: len(t) // count * most]
    return t
