"""Rules for what acts entry by entry, moves entries, or reduces over axes."""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from sigmascope.probes.symmetry.op_contractions import joined, summed
from sigmascope.probes.symmetry.scaled_tensors import INPUT, Shadows
from sigmascope.probes.symmetry.unit_mixing import Passed, told_apart, treated

Arguments = Sequence[Any]
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
        origin = next((why for _, why in sides if why != INPUT), INPUT)
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
    dims = axes_of(arguments, x.ndim)
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


def axes_of(arguments: Arguments, ndim: int) -> list[int]:
    """The axes that a reduction names; all where it names none."""
    given = arguments[1] if len(arguments) > 1 else None
    if given is None or (isinstance(given, list | tuple) and not given):
        return list(range(ndim))
    many = given if isinstance(given, list | tuple) else [given]
    return sorted(d % ndim for d in many)


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
