"""Choosing samples."""

import torch
from torch import Tensor


def choose(
    total: int, labels: Tensor | None, *, samples: int | None, generator: torch.Generator | None
) -> Tensor:
    """Indices of `samples` out of `total`, at random, the classes as equal as they can be.

    All of them, in order, where there are no more than were asked for.

    Args:
        total: Samples there are.
        labels: Class of each; nothing where there are no classes to balance.
        samples: How many are wanted; all where nothing is said.
        generator: Source of the choice; a fresh one with seed 0 when there is none, so that the
            same samples are chosen every time.
    """
    if samples is None or samples >= total:
        return torch.arange(total)
    generator = generator if generator is not None else torch.Generator().manual_seed(0)
    order = torch.randperm(total, generator=generator)
    if labels is None:
        return order[:samples]
    # The r-th sample of every class comes before the (r+1)-th of any.
    shuffled = labels[order]
    rank = torch.empty(total, dtype=torch.long)
    for label in shuffled.unique():
        mine = shuffled == label
        rank[mine] = torch.arange(int(mine.sum()))
    return order[torch.argsort(rank, stable=True)[:samples]]


def classes(targets: Tensor | None, *, most: int = 1000) -> Tensor | None:
    """The targets, where they are class labels of one number a sample, else nothing."""
    if targets is None or targets.ndim != 1 or targets.is_floating_point() or targets.is_complex():
        return None
    return targets if len(targets.unique()) <= most else None


def described(
    name: str, taken: int, total: int, *, balanced: bool, generator: torch.Generator | None
) -> str:
    """The name of a data set and which of its samples were taken."""
    if taken == total:
        return f"{name}, all {total} samples"
    how = ", classes balanced" if balanced else ""
    return f"{name}, {taken} of {total} samples drawn at random{how} ({seeded(generator)})"


def seeded(generator: torch.Generator | None) -> str:
    """The seed a choice was made from, in words."""
    return f"seed {0 if generator is None else generator.initial_seed()}"
