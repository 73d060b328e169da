"""How alike the gradients of single samples are in the last layer."""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float, Float64
from torch import Tensor, nn
from torch.nn.modules.conv import _ConvNd

from sigmascope.probes.convolutions import patches
from sigmascope.probes.execution.hooks import Call
from sigmascope.probes.execution.layers import transposed
from sigmascope.probes.execution.refusals import Unsplit, explaining
from sigmascope.probes.jacobian.ntk_shares import acts_as_linear
from sigmascope.probes.scene import Taped

UNITS = 32  # rows of the last weight matrix that are compared at most
TOGETHER = 2**18  # cosines that are held at once


@dataclass(frozen=True, slots=True)
class Collinearity:
    """Absolute cosines between gradients of single samples, row by row of the last weight matrix.

    Attributes:
        site: The last layer.
        pairs: Pairs of samples, once for every row of the weight matrix compared, of which neither
            gradient is zero.
        least: Smallest `|cos|` of these; infinite where there are none.
        mean: Their mean; zero where there are none. Either is nan where gradients overflow.
        zero: Pairs left out.
        rows: Rows of the last layer's input, one per sample, where it has one position; else None.
        error: Bound on the rounding of one cosine.
    """

    site: str
    pairs: int
    least: float
    mean: float
    zero: int
    rows: Float[Tensor, "n d"] | None
    error: float


@dataclass(frozen=True, slots=True)
class LastGradients:
    """Gradients of single samples in the last layer.

    Attributes:
        site: The last layer.
        grads: Of some rows of its weight matrix.
        rows: As those of `Collinearity`.
        error: Likewise.
    """

    site: str
    grads: Float64[Tensor, "n units inputs"]
    rows: Float[Tensor, "n d"] | None
    error: float


def last_gradients(run: Taped, pull: Tensor | None = None) -> LastGradients:
    """The gradients of single samples in the last layer that a model calls.

    Args:
        run: With targets and a loss, and a tape that is kept.
        pull: The derivative of the loss by the output, samples first, where the run has only some.

    Raises:
        Refusal: If the loss does not accept the targets, or is not a scalar.
        Unsplit: If the last layer's gradient cannot be split.
    """
    if not run.layers:
        raise Unsplit("no layer is called on this batch")
    last = run.layers[-1]
    part = None if pull is None else run.scene.split(run.output)
    value = (
        run.scene.value(run.output.clone()) if part is None else part
    )  # a loss may work in place
    if not value.requires_grad:
        raise Unsplit("the loss does not depend on any weight or layer, by autograd")
    if not last.output.requires_grad:
        raise Unsplit(f"the last layer `{last.site}` is called without gradients")
    with explaining():
        (delta,) = torch.autograd.grad(
            value, last.output, pull, retain_graph=True, allow_unused=True
        )
    if delta is None:
        raise Unsplit(f"the loss does not depend on what the last layer `{last.site}` writes")
    x, d = run.scene.split(last.input), run.scene.split(delta)
    if x is None or d is None or not _covered(last):
        kind = type(last.module).__name__
        raise Unsplit(f"the gradient of {kind}, the last layer, cannot be taken sample by sample")
    grads = _per_unit(last.module, x.double(), d.double())
    error = 16 * torch.finfo(last.input.dtype).eps
    return LastGradients(last.site, grads, x.detach() if x.ndim == 2 else None, error)


def collinearity(parts: Sequence[LastGradients]) -> Collinearity:
    """Compare the gradients of all samples, which come in parts."""
    first = parts[0]
    kept = [p.rows for p in parts if p.rows is not None]
    rows = torch.cat(kept) if kept else None
    pairs, least, mean, zero = _compared(torch.cat([p.grads for p in parts]))
    return Collinearity(first.site, pairs, least, mean, zero, rows, first.error)


def _covered(last: Call) -> bool:
    applies = not isinstance(last.module, nn.Embedding) and not transposed(last.module)
    return applies and acts_as_linear(last.module, last.input, last.output.detach())


def _per_unit(module: nn.Module, x: Tensor, d: Tensor) -> Float64[Tensor, "n units inputs"]:
    """`Σ_p δ_pk a_p`: the gradient of row k of the weight matrix, for every sample."""
    if isinstance(module, _ConvNd):
        cut = patches(module, x)  # [n, g, w, p]
        by_group = d.flatten(2).unflatten(1, (module.groups, -1))[:, :, :UNITS]
        return (by_group @ cut.mT).flatten(1, 2)[:, :UNITS]
    a = x.flatten(1, -2) if x.ndim > 2 else x[:, None]
    deltas = d.flatten(1, -2) if d.ndim > 2 else d[:, None]
    return deltas[:, :, :UNITS].mT @ a


def _compared(grads: Float64[Tensor, "n units inputs"]) -> tuple[int, float, float, int]:
    """Pairs with a direction, their least and mean `|cos|`, and pairs without; in blocks."""
    n, units, _ = grads.shape
    top = grads.abs().amax(2, keepdim=True)
    scaled = grads / torch.where(top > 0, top, 1.0)
    unit = scaled / torch.where(top > 0, scaled.norm(dim=2, keepdim=True), 1.0)
    V, there = unit.transpose(0, 1), (top[:, :, 0] > 0).T  # [units, n, inputs], [units, n]
    place, size = torch.arange(n, device=grads.device), max(1, TOGETHER // (n * units))
    least, total, pairs = V.new_tensor(torch.inf), V.new_zeros(()), 0
    for some in place.split(size):
        kept = there[:, some, None] & there[:, None] & (place > some[:, None])
        found = (V[:, some] @ V.mT).abs().clamp(max=1)[kept]
        if len(found):
            least, total = torch.minimum(least, found.min()), total + found.sum()
            pairs += len(found)
    mean = float(total) / pairs if pairs else 0.0
    return pairs, float(least), mean, units * n * (n - 1) // 2 - pairs
