"""An adapter on its base: each weight before and after the change of low rank is added."""

from collections.abc import Iterable, Mapping, Set
from dataclasses import replace

from sigmascope.records import Skipped
from sigmascope.scanning.costs import work_of
from sigmascope.scanning.cuts import Cut
from sigmascope.scanning.tasks import Pair, Product, Task
from sigmascope.sources.stored import Checkpoint, Stored

TIMES = 6.0  # the work of leading values: of both versions and of their difference


def merges(
    base: Checkpoint, own: Iterable[Task], changes: list[Task], wanted: frozenset[str]
) -> tuple[list[Pair], list[Skipped]]:
    """Weights of a base, each with what an adapter makes of it.

    An adapter says once for all its layers whether they are stored transposed; where kinds of
    layers are mixed, the base knows better.

    Args:
        base: Whose weights are adapted.
        own: The tasks of its matrices.
        changes: The products of low rank, one for each adapted weight.
        wanted: Names of quantities.

    Returns:
        Pairs of versions, and what cannot be paired with the reason.
    """
    known = {stored.name: stored for stored in base.tensors}
    turned = {task.cut.stored.name for task in own if isinstance(task.cut, Cut) and task.cut.turned}
    pairs: list[Pair] = []
    out: list[Skipped] = []
    for task in changes:
        stored = _named(known, task.matrix.site)
        if stored is not None and task.note:
            out.append(Skipped(task.matrix.site, "tensor", task.note))
            continue
        if stored is not None:
            task = _as_stored(task, stored, turned)
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


def _as_stored(task: Task, stored: Stored, turned: Set[str]) -> Task:
    """The change transposed, where only so it fits, or where the base stores that layer so.

    Args:
        task: With the product as the adapter's settings have it.
        stored: The weight of the base.
        turned: Names of weights of the base that are stored as `[in, out]`; if there are none, the
            adapter's settings stand.
    """
    product, shape = task.cut, task.matrix.shape
    assert isinstance(product, Product)
    if shape[0] != shape[1]:
        flip = tuple(stored.shape) == shape[::-1]
    else:
        flip = product.turned is not None and bool(turned)
        flip = flip and (stored.name in turned) != product.turned
    if not flip:
        return task
    left, right = (replace(c, turned=not c.turned) for c in (product.right, product.left))
    matrix = replace(task.matrix, rows=shape[1], cols=shape[0])
    return replace(task, matrix=matrix, cut=replace(product, left=left, right=right))


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
