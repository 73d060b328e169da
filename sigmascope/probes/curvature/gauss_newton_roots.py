"""The square root of a Gauss-Newton matrix: that of the loss, times the outputs' gradients."""

import math
from typing import Any

import torch
from jaxtyping import Float, Float64
from torch import Tensor, nn
from torch.nn.modules.conv import _ConvNd

from sigmascope.gate import Refusal
from sigmascope.probes.convolutions import patches
from sigmascope.probes.execution.layers import transposed
from sigmascope.probes.jacobian.ntk_shares import kernel_gradients
from sigmascope.probes.samples.targets import Loss

MIXED = 1e-6  # of the largest second derivative: above this the loss mixes samples


def square_roots(rows: Tensor | None, loss: Loss | None, targets: Any) -> Float64[Tensor, "n k k"]:
    """`S` with `Sᵀ S` the second derivative of the loss by each sample's output."""
    assert rows is not None
    n, k = len(rows), rows[0].numel()
    if loss is None or targets is None:
        return math.sqrt(2 / n) * torch.eye(k, dtype=torch.float64).expand(n, k, k)
    f = rows.detach().double().requires_grad_()
    floating = isinstance(targets, Tensor) and targets.is_floating_point()
    value = loss(f, targets.double() if floating else targets)
    (slope,) = torch.autograd.grad(value, f, create_graph=True)
    if not slope.requires_grad:
        return torch.zeros(n, k, k, dtype=torch.float64)
    H, apart = _second_derivatives(f, slope.reshape(n, k))
    if not bool(H.isfinite().all()):
        raise Refusal(
            "The second derivative of the loss by the output must be finite, got outputs up to "
            f"{float(f.detach().abs().max()):.3g} at which it is not. Scale the network down."
        )
    lam, vectors = torch.linalg.eigh((H + H.mT).cpu() / 2)
    _require_convex(lam, apart)
    # directions that the loss ignores: the root of their rounding would look like a small value
    noise = 64 * 2.0**-52 * lam.amax(1, keepdim=True)
    return torch.where(lam > noise, lam, 0.0).sqrt()[:, :, None] * vectors.mT


def _second_derivatives(f: Tensor, slope: Tensor) -> tuple[Float64[Tensor, "n k k"], Tensor]:
    """Of every sample by itself, and the most that any other adds to it."""
    n, k = slope.shape

    def second(cotangent: Tensor) -> Tensor:
        return torch.autograd.grad(slope, f, cotangent, retain_graph=True)[0].reshape(n, k)

    H = torch.stack([second(e.expand(n, k)) for e in torch.eye(k, dtype=f.dtype)], dim=1)
    signs = 1.0 - 2.0 * (torch.arange(n) % 2).to(f)[:, None]  # cancels what other samples add
    return H, (second(signs.expand(n, k)) - signs * H.sum(1)).abs().max()


def _require_convex(lam: Tensor, apart: Tensor) -> None:
    top = lam.abs().max()
    if apart > MIXED * top or lam.min() < -MIXED * top:
        what = "mixes samples" if apart > MIXED * top else "is not convex in the output"
        raise Refusal(
            "`loss` must be a sum over samples of functions that are convex in the output, got one "
            f"that {what}. Leave it out to measure with squared error."
        )


def root_rows(module: nn.Module, x: Tensor, J: Tensor, *, biased: bool) -> Float[Tensor, "n k w"]:
    """The gradients of the outputs by the weight, and by the bias."""
    conv = isinstance(module, _ConvNd)
    rows = kernel_gradients(module, x, J).flatten(2) if conv else _linear_rows(x, J)
    if not biased:
        return rows
    at = tuple(range(3, J.ndim) if conv else range(2, J.ndim - 1))  # positions share the bias
    return torch.cat([rows, J.sum(at) if at else J], dim=2)


def _linear_rows(x: Float[Tensor, "n *p i"], J: Tensor) -> Float[Tensor, "n k oi"]:
    a = x.flatten(1, -2) if x.ndim > 2 else x[:, None]  # [n, p, i]
    d = J.flatten(2, -2) if J.ndim > 3 else J[:, :, None]  # [n, k, p, o]
    return torch.einsum("nkpo,npi->nkoi", d, a).flatten(2)


def feature_rows(module: nn.Module, x: Tensor, *, biased: bool) -> Float[Tensor, "rows inputs"]:
    """What the layer reads, one row for each position, with a one where it has a bias."""
    if transposed(module):
        Z = x.flatten(2).mT.flatten(0, 1)
    elif isinstance(module, _ConvNd):
        Z = patches(module, x).permute(0, 1, 3, 2).flatten(0, 2)
    else:
        Z = x.reshape(-1, x.shape[-1])
    return torch.cat([Z, Z.new_ones(len(Z), 1)], dim=1) if biased else Z
