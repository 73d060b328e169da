"""How alike the gradients of single samples are in the last layer."""

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


@dataclass(frozen=True, slots=True)
class Collinearity:
    """Absolute cosines between gradients of single samples, row by row of the last weight matrix.

    Attributes:
        site: The last layer.
        cosines: `|cos|` of every pair of samples, for every row of the weight matrix compared;
            pairs with a zero gradient are left out.
        zero: Pairs left out.
        rows: Rows of the last layer's input, one per sample, where it has one position; else None.
        error: Bound on the rounding of one cosine.
    """

    site: str
    cosines: Float64[Tensor, " pairs"]
    zero: int
    rows: Float[Tensor, "n d"] | None
    error: float


def collinearity(run: Taped) -> Collinearity:
    """Compare the per-sample gradients in the last layer that a model calls.

    Args:
        run: With targets and a loss, and a tape that is kept.

    Raises:
        Refusal: If the loss does not accept the targets, or is not a scalar.
        Unsplit: If the last layer's gradient cannot be split.
    """
    if not run.layers:
        raise Unsplit("no layer is called on this batch")
    last = run.layers[-1]
    value = run.scene.value(run.output.clone())  # a loss may work in place
    if not value.requires_grad:
        raise Unsplit("the loss does not depend on any weight or layer, by autograd")
    if not last.output.requires_grad:
        raise Unsplit(f"the last layer `{last.site}` is called without gradients")
    with explaining():
        (delta,) = torch.autograd.grad(value, last.output, retain_graph=True, allow_unused=True)
    if delta is None:
        raise Unsplit(f"the loss does not depend on what the last layer `{last.site}` writes")
    x, d = run.scene.split(last.input), run.scene.split(delta)
    if x is None or d is None or not _covered(last):
        kind = type(last.module).__name__
        raise Unsplit(f"the gradient of {kind}, the last layer, cannot be taken sample by sample")
    grads = _per_unit(last.module, x.double(), d.double())
    cosines, zero = _cosines(grads)
    error = 16 * torch.finfo(last.input.dtype).eps
    return Collinearity(last.site, cosines, zero, x.detach() if x.ndim == 2 else None, error)


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


def _cosines(grads: Float64[Tensor, "n units inputs"]) -> tuple[Tensor, int]:
    n = len(grads)
    top = grads.abs().amax(2, keepdim=True)
    scaled = grads / torch.where(top > 0, top, 1.0)
    unit = scaled / torch.where(top > 0, scaled.norm(dim=2, keepdim=True), 1.0)
    there = (top[:, :, 0] > 0).T  # [units, n]
    cos = (unit.transpose(0, 1) @ unit.permute(1, 2, 0)).abs().clamp(max=1)
    i, j = torch.triu_indices(n, n, offset=1)
    pairs = cos[:, i, j]
    kept = there[:, i] & there[:, j]
    return pairs[kept].cpu(), int((~kept).sum())
