"""Rules for what sums products over an axis: matrix products, convolutions, embeddings."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from sigmascope.probes.symmetry.parameter_layout import Edge, ids_of
from sigmascope.probes.symmetry.scaled_tensors import INPUT, ZEROS, Shadows, compact
from sigmascope.probes.symmetry.unit_mixing import Passed, by_place

Arguments = Sequence[Any]
Labels = tuple[Tensor | None, str]


def joined(shadows: Shadows, labels: Tensor, dims: Sequence[int], why: str) -> Tensor:
    """Labels that a sum over some axes makes equal; those axes are left with one entry."""
    first = labels
    for d in dims:
        first = first.narrow(d, 0, 1)
    one, other = compact(labels, first.expand(labels.shape))
    shadows.unknowns.equal(ids_of(one), ids_of(other), why=why)
    return first


def _origin(shadows: Shadows, *read: Tensor) -> str:
    """Where numbers come from that no weight scales."""
    reasons = [shadows.why(t) for t in read]
    return next((r for r in reasons if r != INPUT), INPUT)


def mm(shadows: Shadows, arguments: Arguments, out: Tensor) -> None:
    """A product of two matrices."""
    shadows.write(out, product(shadows, *arguments[:2]), _origin(shadows, *arguments[:2]))


def mv(shadows: Shadows, arguments: Arguments, out: Tensor) -> None:
    """A matrix times a vector."""
    found = product(shadows, arguments[0], arguments[1][:, None])
    shadows.write(out, None if found is None else found[:, 0], _origin(shadows, *arguments[:2]))


def dot(shadows: Shadows, arguments: Arguments, out: Tensor) -> None:
    """A product of two vectors."""
    found = product(shadows, arguments[0][None], arguments[1][:, None])
    shadows.write(out, None if found is None else found[0, 0], _origin(shadows, *arguments[:2]))


def addmm(shadows: Shadows, arguments: Arguments, out: Tensor) -> None:
    """A product of two matrices, and a bias."""
    found = product(shadows, arguments[1], arguments[2])
    found = _biased(shadows, out.shape, found, arguments[0])
    shadows.write(out, found, _origin(shadows, *arguments[1:3]))


def bmm(shadows: Shadows, arguments: Arguments, out: Tensor) -> None:
    """Products of pairs of matrices, one for each head of each sample."""
    shadows.write(out, _batched(shadows, *arguments[:2]), _origin(shadows, *arguments[:2]))


def baddbmm(shadows: Shadows, arguments: Arguments, out: Tensor) -> None:
    """As `bmm`, with something added."""
    found = _batched(shadows, arguments[1], arguments[2])
    found = _biased(shadows, out.shape, found, arguments[0])
    shadows.write(out, found, _origin(shadows, *arguments[1:3]))


def _biased(
    shadows: Shadows, shape: torch.Size, found: Tensor | None, bias: Tensor
) -> Tensor | None:
    why = "what weights that are not trained write"
    return summed(shadows, shape, (found, why), (shadows.of(bias), shadows.why(bias)))


def summed(shadows: Shadows, shape: torch.Size, left: Labels, right: Labels) -> Tensor | None:
    """Labels of a sum, which both sides must share.

    Args:
        shadows: Where the equations go.
        shape: Of the sum.
        left: Labels of one side, and why it has none.
        right: Of the other.
    """
    (ours, why_left), (theirs, why_right) = left, right
    if ours is None or theirs is None:
        found = theirs if ours is None else ours
        if ZEROS in (why_left if ours is None else "", why_right if theirs is None else ""):
            return None if found is None else found.expand(shape)
        if found is not None:
            shadows.unknowns.pin(
                ids_of(compact(found)[0].unique()),
                f"it is added to {why_left if ours is None else why_right}",
            )
        return None
    ours, theirs = ours.expand(shape), theirs.expand(shape)
    one, other = compact(ours, theirs)
    shadows.unknowns.equal(ids_of(one), ids_of(other))
    return ours


def product(shadows: Shadows, left: Tensor, right: Tensor) -> Tensor | None:
    """Labels of `left @ right`."""
    if (edge := shadows.edges(right)) is not None and shadows.edges(left) is None:
        return _through(shadows, left, edge)
    if (edge := shadows.edges(left)) is not None and shadows.edges(right) is None:
        found = _through(shadows, right.mT, (edge[1], edge[0]))
        return found.mT
    for matrix in (left, right):
        if shadows.edges(matrix) is not None:
            shadows.pin(matrix, "a product of two weights")
            _drop(shadows, matrix)
    found = _batched(shadows, left[None], right[None])
    return None if found is None else found[0]


def _drop(shadows: Shadows, matrix: Tensor) -> None:
    owner = shadows.owner(matrix)
    assert owner is not None
    owner.clash = "it is multiplied by another weight before it is used"


def _through(shadows: Shadows, x: Tensor, edge: tuple[Edge, Edge]) -> Tensor:
    """Signal `x`, a row a sample, through a weight whose first axis is summed over."""
    inner, outer = edge
    labels = shadows.of(x)
    why = f"its weight reads {shadows.why(x)}"
    if labels is None and not shadows.empty(x):
        shadows.unknowns.pin(inner.unknowns, why)
    elif labels is not None:
        row = joined(shadows, labels, (0,), why)[0]
        shadows.unknowns.equal(ids_of(row), inner.unknowns, -1.0, why)
    written = torch.from_numpy(outer.unknowns.astype(np.int32))
    return written[None].expand(len(x), len(written))


def _batched(shadows: Shadows, left: Tensor, right: Tensor) -> Tensor | None:
    """Labels of a batched product of signals: dual where both differ along what is summed."""
    a, b = shadows.of(left), shadows.of(right)
    for matrix, labels in ((left, a), (right, b)):
        if labels is None and shadows.owner(matrix) is not None:
            shadows.pin(matrix, "a batched product")
    if a is None and b is None:
        return None
    for labels in (a, b):
        if labels is not None and labels.shape[0] > 1:
            by_place(shadows, labels, 0, Passed.HEADS)
    if a is not None and b is not None and _varies(a, 2) and _varies(b, 1):
        return _dual(shadows, a, b)
    why = "it is mixed by numbers that no weight scales"
    shape = torch.Size((left.shape[0], left.shape[1], right.shape[2]))
    parts = [joined(shadows, a, (2,), why)] if a is not None else []
    parts += [joined(shadows, b, (1,), why)] if b is not None else []
    if len(parts) == 1:
        return parts[0].expand(shape)
    return shadows.derived((1.0, parts[0].expand(shape)), (1.0, parts[1].expand(shape)))


def _varies(labels: Tensor, axis: int) -> bool:
    return len(compact(labels.movedim(axis, 0))[0]) > 1


def _dual(shadows: Shadows, a: Tensor, b: Tensor) -> None:
    """A product over units of both sides: what scales one divides the other."""
    rows = joined(shadows, a, (1,), "")[:, 0]
    columns = joined(shadows, b, (2,), "")[..., 0]
    one, other = compact(rows, columns)
    why = "it is multiplied by numbers that no weight scales"
    shadows.unknowns.equal(ids_of(one), ids_of(other), -1.0, why)


def convolution(shadows: Shadows, arguments: Arguments, out: Tensor) -> None:
    """A convolution, transposed or not, of any stride, padding, dilation and groups."""
    x, weight, bias = arguments[:3]
    transposed, groups = arguments[6], arguments[8]
    labels = shadows.of(x)
    why = f"its kernel reads {shadows.why(x)}"
    others = [d for d in range(x.ndim) if d != 1]
    channels = None if labels is None else joined(shadows, labels, others, why).flatten()
    frame = shadows.kernel(weight, groups)
    if frame is None:
        if transposed:
            shadows.pin(weight, "a transposed convolution")  # its outputs are not its rows
        gains = None if transposed else shadows.of(weight)
        found = _filtered(shadows, channels, gains, groups, out.shape[1])
    else:
        sides = [first + np.arange(n) for first, n in zip(frame.firsts, frame.counts, strict=True)]
        outer, inner = reversed(sides) if transposed else sides
        if channels is None:
            shadows.unknowns.pin(inner, why)
        else:
            shadows.unknowns.equal(ids_of(channels), inner, -1.0, why)
        found = torch.from_numpy(outer.astype(np.int32))
    if bias is not None:
        found = _biased(shadows, torch.Size((out.shape[1],)), found, bias)
    spread = None if found is None else found.reshape(1, -1, *[1] * (out.ndim - 2))
    shadows.write(out, spread, _origin(shadows, x, weight))


def _filtered(
    shadows: Shadows, channels: Tensor | None, gains: Tensor | None, groups: int, count: int
) -> Tensor | None:
    """Channels through a kernel that is not a learnable parameter itself."""
    parts: list[Tensor] = []
    if channels is not None:
        each = joined(shadows, channels.reshape(groups, -1), (1,), "a fixed kernel mixes it")
        parts.append(each.expand(groups, count // groups).reshape(count))
    if gains is not None:
        others = list(range(1, gains.ndim))
        parts.append(joined(shadows, gains, others, "a kernel of parts").flatten())
    if len(parts) < 2:
        return parts[0] if parts else None
    return shadows.derived((1.0, parts[0]), (1.0, parts[1]))


def embedding(shadows: Shadows, arguments: Arguments, out: Tensor) -> None:
    """Rows of a table, chosen by tokens."""
    weight, tokens = arguments[:2]
    padding = arguments[2] if len(arguments) > 2 else -1
    edge = shadows.edges(weight)
    if edge is None:
        shadows.pin(weight, "an embedding")
        shadows.write(out, None, shadows.why(weight))
        return
    rows, columns = edge
    shadows.unknowns.pin(rows.unknowns, "a token's row, which the tokens choose")
    spoiled = padding >= 0 and bool((tokens == padding).any()) and bool(weight[padding].any())
    if spoiled or (len(arguments) > 3 and arguments[3]):
        why = "its embedding drops or rescales the gradient of some tokens"
        shadows.unknowns.pin(columns.unknowns, why)
    shadows.write(out, torch.from_numpy(columns.unknowns.astype(np.int32)))
