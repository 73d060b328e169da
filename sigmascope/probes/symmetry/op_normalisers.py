"""Rules for normalisers, pooling, padding, and what moves entries without changing them."""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from sigmascope.probes.symmetry.op_contractions import joined, summed
from sigmascope.probes.symmetry.op_pointwise import unknown
from sigmascope.probes.symmetry.parameter_layout import Frame, ids_of
from sigmascope.probes.symmetry.scaled_tensors import Shadows
from sigmascope.probes.symmetry.unit_mixing import Passed, told_apart

Arguments = Sequence[Any]
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
        frame = shadows.kernel(v, 1) if v.ndim > 2 else _matrix(shadows, v)
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


def _matrix(shadows: Shadows, v: Tensor) -> Frame | None:
    found = shadows.edges(v)
    return None if found is None else found[0].frame


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
