"""Readings of samples that come more than once, and of what that leaves untold of the targets."""

from collections.abc import Iterator

import torch
from jaxtyping import Float64, Int64
from torch import Tensor

from sigmascope import quantities as q
from sigmascope.probes import Subject
from sigmascope.probes.samples import tensors
from sigmascope.records import Estimate, Item, Reading, View
from sigmascope.survey.views.task import target_rows

VIEW: View = "setup"
HARDLY = 1e-5  # of the size of an input: less is no difference between samples
ROUNDING = 1e-12  # of means over samples, and of sums of their squares


def repeat_items(subject: Subject) -> Iterator[Item]:
    """How many samples differ from all others, and how far targets of equal ones do.

    Parts of the batch that are not counted by samples, as the edges of a graph, may tell apart what
    is the same in all others: then the number of samples is the upper end.
    """
    groups, whole = sample_groups(subject)
    if groups is None:
        return
    found = int(groups.max()) + 1
    most = found if whole else subject.count
    how = "exact" if whole else "parts that are not counted by samples may tell them apart"
    yield Reading("(inputs)", q.DISTINCT_SAMPLES, Estimate(found, found, most, how), VIEW)
    if whole and 1 < found < subject.count and isinstance(subject.targets, Tensor):
        wanted = target_rows(subject.targets, subject.count)
        if wanted is not None:
            untold = Estimate.within(untold_share(groups, wanted), ROUNDING)
            clipped = untold.at_least(0.0).at_most(1.0)
            yield Reading("(targets)", q.CONTRADICTED_TARGETS, clipped, VIEW)


def sample_groups(subject: Subject) -> tuple[Int64[Tensor, " n"] | None, bool]:
    """Which samples of the batch are the same before any operation, as they are handed over.

    Numbers that hardly differ from their mean over the batch, by rounding say, do not count.

    Returns:
        The number of each sample's group, None where nothing is counted by samples; and whether
        all of the batch is.
    """
    dim, count = subject.batch_dim, subject.count
    parts = [t for t in tensors(subject.batch) if t.numel() > 1]
    own = [t for t in parts if t.ndim > dim and t.shape[dim] == count]
    if not own:
        return None, False
    rows = [t.detach().movedim(dim, 0).reshape(count, -1).double().cpu() for t in own]
    differ = [x for x in rows if float((x - x.mean(0)).norm()) > HARDLY * float(x.norm())]
    if not differ:
        return torch.zeros(count, dtype=torch.long), len(own) == len(parts)
    return torch.cat(differ, 1).unique(dim=0, return_inverse=True)[1], len(own) == len(parts)


def untold_share(groups: Int64[Tensor, " n"], wanted: Float64[Tensor, "n k"]) -> float:
    """Share of the variance of targets that lies between samples of one group.

    Args:
        groups: Which samples are the same.
        wanted: Targets as centred rows, not all zero.

    Returns:
        0 where equal samples have equal targets, 1 where they tell nothing of them.
    """
    count = torch.bincount(groups).to(wanted)[:, None]
    means = wanted.new_zeros(len(count), wanted.shape[1]).index_add_(0, groups, wanted) / count
    return float((wanted - means[groups]).square().sum() / wanted.square().sum())
