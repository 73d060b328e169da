"""Whether a model is a plain stack of layers, found by comparing it with one on a batch."""

from itertools import pairwise

import torch
from torch import Tensor, nn
from torch.nn.modules.conv import _ConvNd

from sigmascope.probes.convolutions import convolution_operator
from sigmascope.probes.execution.hooks import Call, is_repeated
from sigmascope.probes.samples.batches import Batch
from sigmascope.probes.structure.linear_stacks import Stack

MOST = 2**24  # entries of a convolution's matrix
NEAR = 8  # roundings by which what a layer reads may differ from the activation
CONFIRMED = 8  # samples on which the matrices are compared with what the layers wrote


def stack_of(calls: tuple[Call, ...], batch: Batch, output: Tensor) -> Stack | str:
    """The stack that a model is; or why it is none.

    Args:
        calls: Of its layers, one after the other; what each reads is compared with the activation
            of what the one before wrote.
        batch: What the model was run on.
        output: What it gave.
    """
    slope = _why_none(calls, batch, output) or _slope(calls)
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
    return ""


def _slope(calls: tuple[Call, ...]) -> float | str:
    """The one slope below zero of all activations."""
    slope: float | None = None
    for before, after in pairwise(calls):
        z, a = before.output.detach().flatten(1).double(), after.input.flatten(1).double()
        between = f"between {before.site} and {after.site}"
        if not bool(z.isfinite().all()):
            return f"{before.site} writes numbers that are not finite"
        if z.shape != a.shape:
            return f"{between} units are pooled, split or joined"
        room = NEAR * torch.finfo(before.output.dtype).eps
        below = z < 0
        if slope is None and bool(below.any()):
            slope = float((a[below] * z[below]).sum() / z[below].square().sum())
        expected = torch.where(below, (slope if slope is not None else 0.0) * z, z)
        if not torch.allclose(a, expected, rtol=room, atol=room * float(z.abs().max())):
            return f"{between} lies something else than one activation with two slopes"
    return 1.0 if slope is None else _shortest(slope, torch.finfo(calls[0].output.dtype).eps)


def _shortest(slope: float, eps: float) -> float:
    """The number of fewest digits that rounding cannot tell from the slope that was measured."""
    nearby = (float(f"{slope:.{digits}g}") for digits in range(1, 18))
    return next(near for near in nearby if abs(near - slope) <= NEAR / 2 * eps * abs(slope))


def _computes(call: Call, W: Tensor, b: Tensor) -> bool:
    """Whether what a layer wrote is its matrix times what it read, up to the model's rounding."""
    x = call.input[:CONFIRMED].flatten(1).double().cpu()
    z = call.output.detach()[:CONFIRMED].flatten(1).double().cpu()
    if x.shape[1] != W.shape[1] or z.shape[1] != W.shape[0]:
        return False
    kinds = [torch.finfo(t.dtype) for t in (call.input, call.output)]
    eps, least = max(k.eps for k in kinds), max(k.tiny for k in kinds)
    room = (NEAR + W.shape[1]) * (eps * (x.abs() @ W.abs().mT + b.abs()) + least)
    return bool(((x @ W.mT + b - z).abs() <= room).all())


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
