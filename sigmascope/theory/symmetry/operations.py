"""What each operation of a run does to the scales of units, listed by hand.

An operation that is not here lets nothing be rescaled: an omission can lose an invariant, never
claim a false one.
"""

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import numpy as np
import torch
from torch import Tensor

from sigmascope.theory.symmetry.scales import (
    INPUT,
    ZEROS,
    AxisView,
    Frame,
    Passed,
    Shadows,
    by_place,
    compact,
    ids_of,
    told_apart,
    treated,
)

# ------------------------------------------------------------------------------
# Rules for what sums products over an axis: matrix products, convolutions, embeddings.


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
            owner = shadows.owner(matrix)
            assert owner is not None
            owner.clash = "it is multiplied by another weight before it is used"
    found = _batched(shadows, left[None], right[None])
    return None if found is None else found[0]


def _through(shadows: Shadows, x: Tensor, edge: tuple[AxisView, AxisView]) -> Tensor:
    """Signal `x`, a row a sample, through a weight whose first axis is summed over."""
    inner, outer = edge
    labels = shadows.of(x)
    why = f"its weight reads {shadows.why(x)}"
    if labels is None and shadows.why(x) != ZEROS:
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
        # a product over units of both sides: what scales one divides the other
        rows = joined(shadows, a, (1,), "")[:, 0]
        columns = joined(shadows, b, (2,), "")[..., 0]
        one, other = compact(rows, columns)
        why = "it is multiplied by numbers that no weight scales"
        shadows.unknowns.equal(ids_of(one), ids_of(other), -1.0, why)
        return None
    why = "it is mixed by numbers that no weight scales"
    shape = torch.Size((left.shape[0], left.shape[1], right.shape[2]))
    parts = [joined(shadows, a, (2,), why)] if a is not None else []
    parts += [joined(shadows, b, (1,), why)] if b is not None else []
    if len(parts) == 1:
        return parts[0].expand(shape)
    return shadows.derived((1.0, parts[0].expand(shape)), (1.0, parts[1].expand(shape)))


def _varies(labels: Tensor, axis: int) -> bool:
    return len(compact(labels.movedim(axis, 0))[0]) > 1


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
        gains, count = None if transposed else shadows.of(weight), out.shape[1]
        parts: list[Tensor] = []
        if channels is not None:
            each = joined(shadows, channels.reshape(groups, -1), (1,), "a fixed kernel mixes it")
            parts.append(each.expand(groups, count // groups).reshape(count))
        if gains is not None:
            axes = list(range(1, gains.ndim))
            parts.append(joined(shadows, gains, axes, "a kernel of parts").flatten())
        found = parts[0] if parts else None
        if len(parts) == 2:
            found = shadows.derived((1.0, parts[0]), (1.0, parts[1]))
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


# ------------------------------------------------------------------------------
# Rules for what acts entry by entry, moves entries, or reduces over axes.


NEGLIGIBLE = 1e-2  # of a number that a constant added to it may be, to be called a slack


def activation(shadows: Shadows, arguments: Arguments, out: Tensor) -> None:
    """ReLU, leaky ReLU and the like: a slope for each sign."""
    x = arguments[0]
    labels = shadows.of(x)
    if len(arguments) > 1 and arguments[1] < 0:
        modulus(shadows, arguments, out)
        return
    if labels is not None:
        treated(shadows, labels, (out > 0).long() - (out < 0).long(), Passed.ACTIVATION)
    shadows.write(out, labels, shadows.why(x))


def learned_slope(shadows: Shadows, arguments: Arguments, out: Tensor) -> None:
    """PReLU, whose slopes may not be rescaled."""
    shadows.pin(arguments[1], "the slope of an activation")
    labels = shadows.of(arguments[0])
    if labels is not None:
        told_apart(shadows, labels, Passed.ACTIVATION)
    shadows.write(out, labels, shadows.why(arguments[0]))


def modulus(shadows: Shadows, arguments: Arguments, out: Tensor) -> None:
    """The absolute value."""
    labels = shadows.of(arguments[0])
    if labels is not None:
        told_apart(shadows, labels, Passed.ACTIVATION)
    shadows.write(out, labels, shadows.why(arguments[0]))


def clamp(shadows: Shadows, arguments: Arguments, out: Tensor) -> None:
    """A clamp at zero from below is a ReLU; one that clamps nothing does nothing."""
    x, low = arguments[:2]
    high = arguments[2] if len(arguments) > 2 else None
    labels = shadows.of(x)
    if labels is None:
        shadows.write(out, None, shadows.why(x))
    elif high is None and isinstance(low, int | float) and low == 0:
        activation(shadows, arguments[:1], out)
    elif torch.equal(x, out) and x.data_ptr() != out.data_ptr():
        shadows.write(out, labels)
    else:
        shadows.pin(x, "a clamp")
        shadows.write(out, None, "a clamp")


def same(shadows: Shadows, arguments: Arguments, out: Tensor) -> None:
    """Copies, signs and numbers that are the same for all."""
    shadows.write(out, shadows.of(arguments[0]), shadows.why(arguments[0]))


def masked(shadows: Shadows, arguments: Arguments, out: Tensor) -> None:
    """Entries replaced by zero, or by minus infinity before a softmax."""
    x, mask, value = arguments[:3]
    labels = shadows.of(x)
    kept = not isinstance(value, Tensor) or shadows.of(value) is None
    if labels is not None and kept and (float(value) == 0 or float(value) == -float("inf")):
        treated(shadows, labels, mask, Passed.DATA)
        shadows.write(out, labels)
        return
    unknown(shadows, arguments, out, "a masked fill")


def choice(shadows: Shadows, arguments: Arguments, out: Tensor) -> None:
    """Entries of one tensor or of another; zeros go with everything."""
    mask, left, right = arguments[:3]
    if not (isinstance(left, Tensor) and isinstance(right, Tensor)):
        unknown(shadows, arguments, out, "a choice between it and a constant")
        return
    a, b = shadows.of(left), shadows.of(right)
    free = [t for t, ids in ((left, a), (right, b)) if ids is None and bool(t.any())]
    if free and (a is not None or b is not None):
        unknown(shadows, arguments, out, "a choice between it and constants")
        return
    found = a if b is None else b
    if a is not None and b is not None:
        found = summed(shadows, out.shape, (a, ""), (b, ""))
    if found is not None:
        treated(shadows, found, mask, Passed.DATA)
    shadows.write(out, found, "a choice between constants")


def dropout(shadows: Shadows, arguments: Arguments, out: Any) -> None:
    """A mask and a number."""
    written, mask = out
    labels = shadows.of(arguments[0])
    if labels is not None:
        treated(shadows, labels, mask, Passed.DATA)
    shadows.write(written, labels, shadows.why(arguments[0]))


def add(shadows: Shadows, arguments: Arguments, out: Tensor) -> None:
    """A sum or difference, with a tensor or a number."""
    left, right = arguments[:2]
    if isinstance(left, Tensor) and isinstance(right, Tensor):
        sides = [(shadows.of(t), shadows.why(t)) for t in (left, right)]
        added = [why for _, why in sides if why != ZEROS] or [ZEROS]
        origin = next((why for why in added if why != INPUT), added[0])
        shadows.write(out, summed(shadows, out.shape, *sides), origin)
        return
    x, number = (left, right) if isinstance(left, Tensor) else (right, left)
    labels = shadows.of(x)
    if labels is not None and number != 0:
        smallest = float((out - number).abs().min())
        if not smallest > 0 or abs(number) > NEGLIGIBLE * smallest:
            unknown(shadows, arguments, out, f"{number} is added")
            return
        units = labels.unique().long().cpu().numpy()
        shadows.unknowns.loosen(units, abs(number) / smallest)
    shadows.write(out, labels, shadows.why(x))


def scaled(power: float) -> Callable[[Shadows, Arguments, Tensor], None]:
    """Multiplication by the second operand, or by its inverse."""

    def rule(shadows: Shadows, arguments: Arguments, out: Tensor) -> None:
        left, right = arguments[:2]
        if len(arguments) > 2 and arguments[2] is not None:
            unknown(shadows, arguments, out, "a rounded quotient")
            return
        if not (isinstance(left, Tensor) and isinstance(right, Tensor)):
            same(shadows, [left if isinstance(left, Tensor) else right], out)
            return
        a, b = shadows.of(left), shadows.of(right)
        for labels, other, theirs in ((a, right, b), (b, left, a)):
            if labels is not None and theirs is None:
                treated(shadows, labels, other, Passed.DATA)
            elif labels is not None:
                told_apart(shadows, labels, Passed.GAIN)
        why = shadows.why(left)
        if a is None or b is None:
            found = a if b is None else b if power == 1 else shadows.derived((power, b))
            spread = None if found is None else found.expand(out.shape)
            shadows.write(out, spread, why)
            return
        spread = shadows.derived((1.0, a.expand(out.shape)), (power, b.expand(out.shape)))
        shadows.write(out, spread)

    return rule


def powered(shadows: Shadows, arguments: Arguments, out: Tensor, power: float) -> None:
    """A power of each entry."""
    labels = shadows.of(arguments[0])
    if labels is None:
        shadows.write(out, None, shadows.why(arguments[0]))
        return
    told_apart(shadows, labels, Passed.ACTIVATION)
    shadows.write(out, shadows.derived((power, labels)))


def power(shadows: Shadows, arguments: Arguments, out: Tensor) -> None:
    """A power with an exponent that is a number."""
    if not isinstance(arguments[0], Tensor) or isinstance(arguments[1], Tensor):
        unknown(shadows, arguments, out, "a power that is a tensor")
        return
    powered(shadows, arguments, out, float(arguments[1]))


def root(exponent: float) -> Callable[[Shadows, Arguments, Tensor], None]:
    """A power with a fixed exponent."""
    return lambda shadows, arguments, out: powered(shadows, arguments, out, exponent)


def reduced(shadows: Shadows, arguments: Arguments, out: Any) -> None:
    """A sum, mean, largest value or norm over some axes."""
    x = arguments[0]
    written = out[0] if isinstance(out, list | tuple) else out
    labels = shadows.of(x)
    if len(arguments) > 1 and isinstance(arguments[1], Tensor):  # the larger of two tensors
        unknown(shadows, arguments, out, "the larger of two")
        return
    if labels is None:
        shadows.write(written, None, shadows.why(x))
        return
    # the axes that it names; all where it names none
    given = arguments[1] if len(arguments) > 1 else None
    many = given if isinstance(given, list | tuple) else [] if given is None else [given]
    dims = sorted(d % x.ndim for d in many) or list(range(x.ndim))
    first = joined(shadows, labels, dims, "it is averaged with constants")
    if written.ndim < x.ndim:
        first = first.reshape([s for d, s in enumerate(first.shape) if d not in dims])
    shadows.write(written, first)


def extreme(shadows: Shadows, arguments: Arguments, out: Any) -> None:
    """A largest or smallest value, which each unit takes at its own place."""
    labels = shadows.of(arguments[0])
    if labels is not None:
        told_apart(shadows, labels, Passed.POOLING)
    reduced(shadows, arguments, out)


def vector_norm(shadows: Shadows, arguments: Arguments, out: Tensor) -> None:
    """A norm over some axes, which are the third argument."""
    dims = arguments[2] if len(arguments) > 2 else None
    reduced(shadows, (arguments[0], *([] if dims is None else [dims])), out)


def unknown(shadows: Shadows, arguments: Arguments, out: Any, why: str) -> None:
    """An operation that is not homogeneous, or not known: nothing it reads may be rescaled."""
    for t in _tensors(arguments):
        if t.is_floating_point() and t.numel():
            shadows.pin(t, why)
    for t in _tensors([out]):
        if t.is_floating_point() and t.numel():
            shadows.write(t, None, why)


def _tensors(values: Any) -> list[Tensor]:
    if isinstance(values, Tensor):
        return [values]
    if isinstance(values, list | tuple):
        return [t for v in values for t in _tensors(v)]
    return []


# ------------------------------------------------------------------------------
# Rules for normalisers, pooling, padding, and what moves entries without changing them.


Rule = Callable[[Shadows, Arguments, Any], None]


def layer_norm(shadows: Shadows, arguments: Arguments, out: Any) -> None:
    """Over the last axes: a common scale of all that is normalised goes unnoticed."""
    x, shape, weight, bias, eps = arguments[:5]
    dims = list(range(x.ndim - len(shape), x.ndim))
    _forgets(shadows, x, dims, eps, subtracts=True)
    shadows.write(out[0], _affine(shadows, out[0].shape, weight, bias), "a normaliser")


def rms_norm(shadows: Shadows, arguments: Arguments, out: Any) -> None:
    """As `layer_norm`, without mean and shift."""
    x, shape, weight, eps = arguments[:4]
    dims = list(range(x.ndim - len(shape), x.ndim))
    eps = torch.finfo(x.dtype).eps if eps is None else eps
    _forgets(shadows, x, dims, eps, subtracts=False)
    written = out[0] if isinstance(out, tuple) else out
    shadows.write(written, _affine(shadows, written.shape, weight, None), "a normaliser")


def group_norm(shadows: Shadows, arguments: Arguments, out: Any) -> None:
    """Over groups of channels."""
    x, weight, bias, _, _, _, groups, eps = arguments[:8]
    parts = x.reshape(x.shape[0], groups, -1)
    labels = shadows.of(x)
    if labels is not None:
        _forget(shadows, labels.reshape(parts.shape), parts, [2], eps, subtracts=True)
    each = [_column(t, x.ndim) for t in (weight, bias)]
    shadows.write(out[0], _affine(shadows, out[0].shape, *each), "a normaliser")


def batch_norm(shadows: Shadows, arguments: Arguments, out: Any) -> None:
    """Over samples and positions, channel by channel; with fixed statistics in evaluation."""
    x, weight, bias, _, _, training, _, eps = arguments[:8]
    if training:
        others = [d for d in range(x.ndim) if d != 1]
        _forgets(shadows, x, others, eps, subtracts=True)
    else:
        shadows.pin(x, "a batch normaliser with fixed statistics")
    each = [_column(t, x.ndim) for t in (weight, bias)]
    shadows.write(out[0], _affine(shadows, out[0].shape, *each), "a normaliser")


def _column(t: Tensor | None, ndim: int) -> Tensor | None:
    return None if t is None else t.reshape(1, -1, *[1] * (ndim - 2))


def _forgets(shadows: Shadows, x: Tensor, dims: list[int], eps: float, *, subtracts: bool) -> None:
    labels = shadows.of(x)
    if labels is not None:
        _forget(shadows, labels, x, dims, eps, subtracts=subtracts)


def _forget(
    shadows: Shadows, labels: Tensor, x: Tensor, dims: list[int], eps: float, *, subtracts: bool
) -> None:
    """What is normalised together has one scale; `eps` notices it a little."""
    first = joined(shadows, labels, dims, "it is normalised with constants")
    told_apart(shadows, first, Passed.NORMALISER)
    centred = x.double() - x.double().mean(dims, keepdim=True) if subtracts else x.double()
    size = float(centred.square().mean(dims).min())
    shadows.unknowns.loosen(ids_of(first.unique()), eps / (size + eps) if size + eps > 0 else 1.0)


def _affine(
    shadows: Shadows, shape: torch.Size, weight: Tensor | None, bias: Tensor | None
) -> Tensor | None:
    """Labels of `gain * x + shift` where nothing rescales x."""
    gains = None if weight is None else shadows.of(weight)
    if gains is not None:
        told_apart(shadows, gains, Passed.GAIN)
    if bias is None:
        return None if gains is None else gains.expand(shape)
    if gains is None:
        shadows.pin(bias, "it is added to what a normaliser writes")
        return None
    return summed(shadows, shape, (gains, ""), (shadows.of(bias), shadows.why(bias)))


def weight_norm(shadows: Shadows, arguments: Arguments, out: Any) -> None:
    """A direction of each row, and its length."""
    v, g, dim = arguments[:3]
    written = out[0]
    frame: Frame | None = None
    if dim == 0 and shadows.owner(v) is not None:
        if v.ndim > 2:
            frame = shadows.kernel(v, 1)
        elif (found := shadows.edges(v)) is not None:
            frame = found[0].frame
    if frame is None:
        unknown(shadows, arguments, out, "a weight normalisation")
        return
    first, count = frame.columns, frame.counts[1]
    shadows.unknowns.pin(torch.arange(first, first + count).numpy(), "a weight normalisation")
    rows = torch.arange(frame.rows, frame.rows + frame.counts[0])
    told_apart(shadows, rows, Passed.NORMALISER)
    lengths = shadows.of(g)
    if lengths is not None:
        told_apart(shadows, lengths, Passed.GAIN)
        lengths = lengths.expand(written.shape)
    shadows.write(written, lengths, "a weight normalisation")


def pooled(axes: int, *, largest: bool = False) -> Rule:
    """Averages or largest values over windows of the last axes, or interpolation of them.

    An average is the same linear map for each channel; a largest value is taken by each at its own
    place.
    """

    def rule(shadows: Shadows, arguments: Arguments, out: Any) -> None:
        x = arguments[0]
        written = out[0] if isinstance(out, list | tuple) else out
        labels = shadows.of(x)
        if labels is None:
            shadows.write(written, None, shadows.why(x))
            return
        if largest:
            told_apart(shadows, labels, Passed.POOLING)
        spatial = list(range(x.ndim - axes, x.ndim))
        first = joined(shadows, labels, spatial, "it is averaged with constants")
        shadows.write(written, first.expand(written.shape))

    return rule


def padded(shadows: Shadows, arguments: Arguments, out: Tensor) -> None:
    """Zeros around: they go with every scale, and belong to no weight."""
    x, pads, value = arguments[:3]
    labels = shadows.of(x)
    if labels is None or value != 0:
        unknown(shadows, arguments, out, "a padding with numbers that are not zero")
        return
    found = labels
    for k in range(len(pads) // 2):
        axis = x.ndim - 1 - k
        before, after = pads[2 * k], pads[2 * k + 1]
        parts = [_free(shadows, found, axis, before), found, _free(shadows, found, axis, after)]
        if min(before, after) < 0:
            unknown(shadows, arguments, out, "a padding that cuts")
            return
        found = torch.cat(parts, axis)
    shadows.write(out, found)


def _free(shadows: Shadows, labels: Tensor, axis: int, count: int) -> Tensor:
    """Unknowns that nothing else obeys, one for each place along an axis."""
    count = max(count, 0)
    first = shadows.unknowns.fresh(count, shadows.new_bundle())
    shape = [1] * labels.ndim
    shape[axis] = count
    ids = torch.arange(first, first + count, dtype=torch.int32).reshape(shape)
    return ids.expand([count if a == axis else s for a, s in enumerate(labels.shape)])


# linear maps of each channel by itself, by how many axes they act on
AVERAGES = {
    1: ("upsample_nearest1d", "upsample_linear1d", "reflection_pad1d", "replication_pad1d"),
    2: (
        *("avg_pool2d", "_adaptive_avg_pool2d", "reflection_pad2d", "replication_pad2d"),
        *("upsample_nearest2d", "upsample_bilinear2d", "upsample_bicubic2d"),
    ),
    3: ("avg_pool3d", "_adaptive_avg_pool3d", "upsample_nearest3d"),
}
RULES: Mapping[str, Rule] = MappingProxyType(
    {
        "mm": mm,
        "mv": mv,
        "dot": dot,
        "addmm": addmm,
        "bmm": bmm,
        "baddbmm": baddbmm,
        "convolution": convolution,
        "embedding": embedding,
        **dict.fromkeys(("relu", "leaky_relu"), activation),
        "_prelu_kernel": learned_slope,
        **dict.fromkeys(("rrelu_with_noise", "abs"), modulus),
        **dict.fromkeys(("clamp", "clamp_min"), clamp),
        **dict.fromkeys(["neg", "clone", "_to_copy", "contiguous", "tril", "triu"], same),
        "masked_fill": masked,
        "where": choice,
        "native_dropout": dropout,
        **dict.fromkeys(("add", "sub", "rsub"), add),
        "mul": scaled(1.0),
        "div": scaled(-1.0),
        "pow": power,
        "square": root(2.0),
        "sqrt": root(0.5),
        "rsqrt": root(-0.5),
        "reciprocal": root(-1.0),
        **dict.fromkeys(("sum", "mean", "cumsum"), reduced),
        **dict.fromkeys(("amax", "amin", "max", "min"), extreme),
        "linalg_vector_norm": vector_norm,
        "native_layer_norm": layer_norm,
        "_fused_rms_norm": rms_norm,
        "native_group_norm": group_norm,
        **dict.fromkeys(("native_batch_norm", "cudnn_batch_norm"), batch_norm),
        "_weight_norm_interface": weight_norm,
        **dict.fromkeys(AVERAGES[1], pooled(1)),
        **dict.fromkeys(AVERAGES[2], pooled(2)),
        **dict.fromkeys(AVERAGES[3], pooled(3)),
        "max_pool2d_with_indices": pooled(2, largest=True),
        "max_pool3d_with_indices": pooled(3, largest=True),
        "adaptive_max_pool2d": pooled(2, largest=True),
        "constant_pad_nd": padded,
    }
)

# carried out on the labels themselves
MOVES = {
    "cat", "stack", "index", "index_select", "gather", "flip", "roll", "repeat",
    "repeat_interleave", "pixel_shuffle", "pixel_unshuffle", "channel_shuffle",
    "split_with_sizes_copy", "unbind_copy",
}  # fmt: skip

# what they write does not depend on the values of what they read
MADE = {
    "zeros", "empty_like", "zeros_like", "ones_like", "full_like", "rand_like", "randn_like",
    "new_zeros", "new_ones", "new_empty", "new_full", "bernoulli_", "normal_", "uniform_",
    "zero_", "fill_", "exponential_", "detach",
}  # fmt: skip
