"""Whether a model is a plain stack of layers, found by comparing it with one on a batch."""

from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.nn.modules.conv import _ConvNd

from sigmascope.probes.convolutions import convolution_operator
from sigmascope.probes.execution.hooks import Call, is_repeated
from sigmascope.probes.samples.batches import Batch
from sigmascope.probes.structure.linear_stacks import Stack
from sigmascope.probes.structure.planted_numbers import (
    UNKNOWN,
    Between,
    between,
    planted,
)

MOST = 2**24  # entries of a convolution's matrix
ENDS = 2**12  # inputs, and outputs, by all of which derivatives are taken
NEAR = 2  # units in the last place by which an activation may differ from its two slopes
ROOM = 2  # roundings of a layer beside those of its sums: before its bias, and when it writes
CONFIRMED = 8  # samples on which the matrices are compared with what the layers wrote


def stack_of(
    model: nn.Module, calls: tuple[Call, ...], batch: Batch, output: Tensor
) -> Stack | str:
    """The stack that a model is; or why it is none.

    Args:
        model: Which somebody holds still; it is run again, as `planted_numbers` says.
        calls: Of its layers, one after the other; what each reads is compared with the activation
            of what the one before wrote.
        batch: What the model was run on.
        output: What it gave.
    """
    why = _why_none(calls, batch, output) or _finite(calls)
    if why:
        return why
    slope = _asked(model, calls, batch)
    if isinstance(slope, str):
        return slope
    found = [m for c in calls if (m := _matrix(c)) is not None]
    if len(found) < len(calls):
        return "the matrix of a convolution is too large"
    other = [c.site for c, m in zip(calls, found, strict=True) if not _computes(c, *m)]
    if other:
        return f"{other[0]} computes something else than its weight and its bias"
    biased = any(getattr(c.module, "bias", None) is not None for c in calls)
    weights, biases = zip(*found, strict=True)
    return Stack(tuple(c.site for c in calls), weights, biases, slope, biased)


def _why_none(calls: tuple[Call, ...], batch: Batch, output: Tensor) -> str:
    """Why layers are no stack, by their kinds and their ends alone; empty if they may be one."""
    if not calls:
        return "no layer is called on this batch"
    if any(is_repeated(c.site) for c in calls):
        return "a layer is applied more than once"
    odd = [c.site for c in calls if not isinstance(c.module, nn.Linear | _ConvNd)]
    if odd:
        return f"{odd[0]} is neither a linear layer nor a convolution"
    many = [c.site for c in calls if isinstance(c.module, nn.Linear) and c.input.ndim != 2]
    if many:
        return f"{many[0]} is applied to more than one position of each sample"
    first, last = calls[0].input, calls[-1].output
    if not isinstance(batch, Tensor) or not torch.equal(
        first.flatten(1), batch.flatten(1).to(first)
    ):
        return f"{calls[0].site} does not read the input as it is"
    if last.shape != output.shape or not torch.equal(last, output):
        return f"the output is not what {calls[-1].site} writes"
    for end, count in (("inputs", first[0].numel()), ("outputs", last[0].numel())):
        if count > ENDS:
            return f"it has {count} {end}, and derivatives by all are taken of {ENDS} at most"
    return ""


def _asked(model: nn.Module, calls: tuple[Call, ...], batch: Batch) -> float | str:
    """The slope below zero, of the batch and of numbers that are planted."""
    seen = list(between(calls))
    slope = _slope(seen)
    if isinstance(slope, str) or not seen:
        return slope
    for shift in (0, 1):
        for sign in (1, -1):
            run = planted(model, batch, calls, shift=shift, sign=sign)
            if run is None:
                return UNKNOWN
            seen = [*between(run), *seen]
    return _slope(seen)


def _finite(calls: tuple[Call, ...]) -> str:
    """Which layer writes numbers that are not; empty where none does."""
    odd = [c.site for c in calls[:-1] if not bool(c.output.isfinite().all())]
    return f"{odd[0]} writes numbers that are not finite" if odd else ""


def _slope(seen: Sequence[Between]) -> float | str:
    """The one slope below zero of all activations.

    Entry by entry: next to a large number a small one must be right too.
    """
    slope: float | None = None
    for wrote, read, place in seen:
        if wrote.shape != read.shape:
            return f"{place} units are pooled, split or joined"
        z, a = wrote.double(), read.double()
        eps, least = _coarsest(wrote, read)
        below = z < 0
        if slope is None and bool(below.any()):
            slope = _shortest(float((a[below] / z[below]).median()), eps)
        expected = torch.where(below, (slope if slope is not None else 0.0) * z, z)
        if not torch.allclose(a, expected, rtol=NEAR * eps, atol=least):
            return f"{place} lies something else than one activation with two slopes"
    return 1.0 if slope is None else slope


def _coarsest(*tensors: Tensor) -> tuple[float, float]:
    """Relative rounding and smallest normal number of the coarsest of their formats."""
    kinds = [torch.finfo(t.dtype) for t in tensors]
    return max(k.eps for k in kinds), max(k.tiny for k in kinds)


def _shortest(slope: float, eps: float) -> float:
    """The number of fewest digits that rounding cannot tell from the slope that was measured."""
    nearby = (float(f"{slope:.{digits}g}") for digits in range(1, 18))
    return next(near for near in nearby if abs(near - slope) <= NEAR * eps * abs(slope))


def _computes(call: Call, W: Tensor, b: Tensor) -> bool:
    """Whether what a layer wrote is its matrix times what it read, up to the model's rounding.

    Products of half precision are added up in single precision.
    """
    x = call.input[:CONFIRMED].flatten(1).double().cpu()
    z = call.output.detach()[:CONFIRMED].flatten(1).double().cpu()
    if x.shape[1] != W.shape[1] or z.shape[1] != W.shape[0]:
        return False
    eps, least = _coarsest(call.input, call.output)
    steps = ROOM + W.shape[1]
    product, sums = x @ W.mT, x.abs() @ W.abs().mT + b.abs()
    room = steps * (min(eps, torch.finfo(torch.float32).eps) * sums + least)
    room += ROOM * eps * (product.abs() + b.abs())
    return bool(((product + b - z).abs() <= room).all())


def _matrix(call: Call) -> tuple[Tensor, Tensor] | None:
    module = call.module
    if isinstance(module, nn.Linear):
        bias = torch.zeros(module.out_features) if module.bias is None else module.bias
        return module.weight.detach().double().cpu(), bias.detach().double().cpu()
    assert isinstance(module, _ConvNd)
    shape = call.input.shape[1:]
    size = shape.numel()
    if size * call.output.shape[1:].numel() > MOST:
        return None
    # in float64, without the bias, the entries of the kernel are copied and nothing is rounded
    matrix = convolution_operator(module, grid=tuple(shape[1:])).dense().cpu()
    positions = call.output.shape[2:].numel()
    channels = call.output.shape[1]
    bias = torch.zeros(channels) if module.bias is None else module.bias.detach()
    return matrix, bias.double().cpu().repeat_interleave(positions)
