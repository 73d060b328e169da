"""Which matrices may be copies of others, by their sketches."""

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence

import torch
from torch import Tensor

from sigmascope import quantities as q
from sigmascope.scanning.cuts import Cut
from sigmascope.scanning.tasks import Pair, Task

ALIKE = 0.85  # cosine of two sketches, of which copies miss that by more than two deviations
ROWS = 1024  # of the table of cosines at a time


def candidates(tasks: Sequence[Task], sketches: Mapping[int, Tensor], *, start: int) -> list[Pair]:
    """Pairs whose sketches nearly agree, each matrix with the first that it is like.

    They are of one shape, or one of the other's turned; sketches do not tell a matrix from its
    transpose. Opposites are alike too.

    Args:
        tasks: The matrices.
        sketches: By place in the plan.
        start: Index of the first pair.
    """
    by_shape: dict[tuple[int, int], list[Task]] = defaultdict(list)
    for task in tasks:
        if task.index in sketches and isinstance(task.cut, Cut):
            by_shape[_sides(task)].append(task)
    found: list[Pair] = []
    stride = max((task.index for task in tasks), default=0) + 1
    for some in by_shape.values():
        for one, other in _alike(torch.stack([sketches[task.index] for task in some])):
            first, second = some[one], some[other]
            # the same whichever others there are, for a scan that is gone on with finds more
            found.append(_pair(first, second, start + first.index * stride + second.index))
    return found


def _alike(rows: Tensor) -> Iterator[tuple[int, int]]:
    """Each row with the first one before it that it is like."""
    lengths = torch.linalg.vector_norm(rows, dim=1, keepdim=True)
    units = rows / torch.where(lengths > 0, lengths, 1)
    for start in range(0, len(units), ROWS):
        block = units[start : start + ROWS]
        like = (block @ units[: start + len(block)].mT).abs() >= ALIKE
        like &= torch.arange(start + len(block)) < torch.arange(start, start + len(block))[:, None]
        for i in like.any(1).nonzero()[:, 0].tolist():
            yield int(like[i].double().argmax()), start + i


def _sides(task: Task) -> tuple[int, int]:
    rows, cols = task.matrix.shape
    return min(rows, cols), max(rows, cols)


def _pair(one: Task, other: Task, index: int) -> Pair:
    site = f"{one.matrix.site} = {other.matrix.site}"
    work = 64.0 * one.matrix.rows * one.matrix.cols
    return Pair(index, "copy", site, (one, other), frozenset({q.COPY_COSINE}), work)
