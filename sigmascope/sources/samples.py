"""Samples to measure a model on, chosen from what a source holds."""

from dataclasses import dataclass

import torch
from torch import Tensor

from sigmascope.core.guard import Refusal
from sigmascope.core.records import ByValue
from sigmascope.sources.batches import Batch, count, take

# Sizes beyond which nothing is built: more would take Python's time, however little memory.
DEEPEST = 10_000  # layers
WIDEST = 100_000  # outputs: larger labels are codes of something
DIGITS = 18  # of a size in words; longer ones are no size of anything


@dataclass(frozen=True, slots=True, repr=False, eq=False)
class Data(ByValue):
    """A batch to measure a model on.

    Attributes:
        inputs: A tensor, or a tuple or a mapping of tensors, one row a sample.
        targets: Class labels or values, one row a sample; nothing where there are none.
        name: What it is and which samples were taken, in words.
        outputs: Outputs a model of these targets has: the number of classes, or of values a sample.
        total: How many samples the source holds; None where that is not known.
    """

    inputs: Batch
    targets: Tensor | None
    name: str
    outputs: int | None
    total: int | None = None

    @property
    def shape(self) -> tuple[int, ...] | None:
        """Shape of one sample; nothing where a sample is not one tensor."""
        return tuple(self.inputs.shape[1:]) if isinstance(self.inputs, Tensor) else None


def chosen_data(
    name: str,
    inputs: Batch,
    targets: Tensor | None,
    samples: int | None,
    generator: torch.Generator | None,
) -> Data:
    """The samples that were asked for, with words that say which."""
    total, labels = count(inputs), classes(targets)
    rows = choose(total, labels, samples=samples, generator=generator)
    taken = None if targets is None else targets[rows]
    if taken is not None:
        # refuse targets of chosen samples that are no numbers
        bad = (~taken.flatten(1).isfinite()).any(1) if taken.ndim > 1 else ~taken.isfinite()
        if bool(bad.any()):
            raise Refusal(
                f"The targets of {name} must be finite, got {int(bad.sum())} of {len(taken)} "
                f"samples with NaN or an infinity, the first in row {int(rows[bad][0])}: leave "
                "these samples out, or fill the values."
            )
    words = described(name, len(rows), total, balanced=labels is not None, generator=generator)
    return Data(take(inputs, rows), taken, words, outputs_for(targets), total)


def outputs_for(targets: Tensor | None) -> int | None:
    """Outputs of a model of these targets; nothing where there are none."""
    if targets is None:
        return None
    if targets.is_floating_point() or targets.is_complex():
        return 1 if targets.ndim == 1 else int(targets[0].numel())
    labels = targets.long()
    return int(labels.max()) + 1 if int(labels.min()) >= 0 else len(labels.unique())


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
