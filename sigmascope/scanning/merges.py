"""An adapter on its base: each weight before and after the change of low rank is added."""

from collections.abc import Mapping
from dataclasses import replace

from sigmascope.records import Skipped
from sigmascope.scanning.costs import work_of
from sigmascope.scanning.cuts import Cut
from sigmascope.scanning.tasks import Pair, Product, Task
from sigmascope.sources.stored import Checkpoint, Stored

TIMES = 6.0  # the work of leading values: of both versions and of their difference


def merges(
    base: Checkpoint, changes: list[Task], wanted: frozenset[str]
) -> tuple[list[Pair], list[Skipped]]:
    """Weights of a base, each with what an adapter makes of it.

    Args:
        base: Whose weights are adapted.
        changes: The products of low rank, one for each adapted weight.
        wanted: Names of quantities.

    Returns:
        Pairs of versions, and what cannot be paired with the reason.
    """
    known = {stored.name: stored for stored in base.tensors}
    pairs: list[Pair] = []
    out: list[Skipped] = []
    for task in changes:
        stored = _named(known, task.matrix.site)
        if stored is None or tuple(stored.shape) != task.matrix.shape:
            shape = "no weight of that name" if stored is None else f"shape {list(stored.shape)}"
            why = f"the base has {shape}, where the adapter changes {list(task.matrix.shape)}"
            out.append(Skipped(task.matrix.site, "tensor", why))
            continue
        pairs.append(_pair(stored, task, len(pairs), wanted))
    meant = {s.name for task in changes if (s := _named(known, task.matrix.site))}
    rest = [s for s in base.tensors if s.name not in meant and len(s.shape) > 1]
    out += [Skipped(s.name, "tensor", "the adapter leaves it as it is") for s in rest]
    return pairs, out


def _named(known: Mapping[str, Stored], name: str) -> Stored | None:
    """A tensor of this name, or the only one that ends so, as prefixes of wrappers differ."""
    if name in known:
        return known[name]
    ends = [s for n, s in known.items() if n.endswith(f".{name}") or name.endswith(f".{n}")]
    return ends[0] if len(ends) == 1 else None


def _pair(stored: Stored, task: Task, index: int, wanted: frozenset[str]) -> Pair:
    assert isinstance(task.cut, Product)
    cut = Cut(stored, 0, stored.shape[0], rows=stored.shape[0])
    matrix = replace(
        task.matrix,
        kind="linear",
        dtype=stored.dtype,
        tensors=stored.tensors,
        bytes=stored.bytes + task.matrix.bytes,
        effort="leading",
        form="matrix",
    )
    before = replace(task, index=index, matrix=matrix, cut=cut)
    after = replace(before, cut=replace(task.cut, base=cut))
    work = TIMES * work_of(matrix.shape, "leading")
    return Pair(index, "change", matrix.site, (before, after), wanted, work)
