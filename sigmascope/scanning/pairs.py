"""Matrices that are held against one another: layers that meet, copies, two versions of one."""

import itertools
import re
from collections import defaultdict
from collections.abc import Iterator, Sequence

from sigmascope.records.scans import Matrix
from sigmascope.scanning.matrices import blocks

MEETING = (  # what the second reads is what the first writes, within one block
    ("attention value", "attention output"),
    ("feed-forward in", "feed-forward out"),
    ("feed-forward gate", "feed-forward out"),
    ("expert in", "expert out"),
    ("expert gate", "expert out"),
)
NUMBERED = re.compile(r"^(.*?)(\d+)\.weight$")


def meeting(matrices: Sequence[Matrix]) -> Iterator[tuple[int, int]]:
    """Places of two matrices of which the second reads what the first writes."""
    by_block: dict[str, dict[str, list[int]]] = defaultdict(lambda: defaultdict(list))
    for i, (matrix, block) in enumerate(
        zip(matrices, blocks(m.site for m in matrices), strict=True)
    ):
        by_block[block][matrix.kind].append(i)
    for kinds in by_block.values():
        for first, second in MEETING:
            if len(kinds[first]) == len(kinds[second]) == 1:
                yield from _fitting(matrices, kinds[first][0], kinds[second][0])
    yield from _chained(matrices)


def _chained(matrices: Sequence[Matrix]) -> Iterator[tuple[int, int]]:
    """Neighbours of a plain stack: `net.0.weight`, `net.2.weight`, …."""
    stacks: dict[str, list[tuple[int, int]]] = defaultdict(list)
    for i, matrix in enumerate(matrices):
        found = NUMBERED.match(matrix.site)
        if found and matrix.kind == "linear":
            stacks[found[1]].append((int(found[2]), i))
    for stack in stacks.values():
        ordered = [i for _, i in sorted(stack)]
        for one, other in itertools.pairwise(ordered):
            yield from _fitting(matrices, one, other)


def _fitting(matrices: Sequence[Matrix], one: int, other: int) -> Iterator[tuple[int, int]]:
    if matrices[one].rows == matrices[other].cols:
        yield one, other
