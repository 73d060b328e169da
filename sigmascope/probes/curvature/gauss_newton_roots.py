"""The square root of a Gauss-Newton matrix: that of the loss, times the outputs' gradients."""

import math
from collections.abc import Iterator
from typing import Any

import torch
from jaxtyping import Bool, Float, Float64
from torch import Tensor, nn
from torch.nn.modules.conv import _ConvNd

from sigmascope.gate import Refusal
from sigmascope.probes.convolutions import patches
from sigmascope.probes.execution.layers import transposed
from sigmascope.probes.jacobian.ntk_shares import kernel_gradients
from sigmascope.probes.samples.targets import Loss

SEEN = 1e-6  # of the largest second derivative: below this a loss is convex, and mixes no samples
ROUNDED = 64 * 2.0**-52  # of the largest number of which a second derivative is the difference


def square_roots(rows: Tensor | None, loss: Loss | None, targets: Any) -> Float64[Tensor, "n k k"]:
    """`S` with `Sᵀ S` the second derivative of the loss by each sample's output."""
    assert rows is not None
    n, k = len(rows), rows[0].numel()
    if loss is None or targets is None:
        return math.sqrt(2 / n) * torch.eye(k, dtype=torch.float64).expand(n, k, k)
    floating = isinstance(targets, Tensor) and targets.is_floating_point()
    wanted = targets.double() if floating else targets
    f = rows.detach().double()
    H, leak = _second_derivatives(f, loss, wanted)
    if not bool(H.isfinite().all()):
        raise Refusal(
            "The second derivative of the loss by the output must be finite, got outputs up to "
            f"{float(f.abs().max()):.3g} at which it is not. Scale the network down."
        )
    lam, vectors = torch.linalg.eigh(H)
    # directions that the loss ignores: the root of their rounding would look like a small value
    noise = ROUNDED * torch.maximum(lam.amax(1), _unit(f, loss, wanted))
    _require_convex(lam, leak, noise)
    return torch.where(lam > noise[:, None], lam, 0.0).sqrt()[:, :, None] * vectors.mT


def _unit(f: Tensor, loss: Loss, targets: Any) -> Float64[Tensor, " n"]:
    """The size of the numbers whose difference the curvature of each sample is.

    Where outputs are large a loss may be flat, as cross-entropy is where it is sure: its curvature
    `p (1 - p)` is then a small difference of numbers near one, and rounds as these do. Of what
    size they are is seen at outputs of one, where the curvature is as large as they.
    """
    H, _ = _second_derivatives(f / f.abs().max().clamp_min(1.0), loss, targets)
    size = torch.linalg.eigvalsh(H.nan_to_num(0.0, 0.0, 0.0)).abs().sum(1)
    return torch.where(H.isfinite().all(2).all(1), size, 0.0)


def _second_derivatives(
    f: Tensor, loss: Loss, targets: Any
) -> tuple[Float64[Tensor, "n k k"], float]:
    """Of every sample by itself, and the most that samples which do not change see of the others.

    The second is exactly zero for a loss that takes each sample for itself, whatever it rounds.
    """
    n, k = len(f), f[0].numel()
    f = f.clone().requires_grad_()
    (slope,) = torch.autograd.grad(loss(f, targets), f, create_graph=True)
    if not slope.requires_grad:
        return torch.zeros(n, k, k, dtype=torch.float64), 0.0

    def second(cotangent: Tensor) -> Tensor:
        found = torch.autograd.grad(slope, f, cotangent.reshape(f.shape), retain_graph=True)[0]
        return found.reshape(n, k)

    H = torch.stack([second(e.expand(n, k)) for e in torch.eye(k).to(f)], dim=1)
    probe = torch.randn(n, k, generator=torch.Generator().manual_seed(0)).to(f)
    leak = 0.0
    for still in _halves(n, f.device):  # of any two samples one changes without the other
        leak = max(leak, float(second(probe * ~still[:, None])[still].abs().max()))
    return ((H + H.mT) / 2).cpu(), leak


def _halves(n: int, device: torch.device) -> Iterator[Bool[Tensor, " n"]]:
    """Parts of the samples, so that any two are apart in one of them."""
    for bit in range((n - 1).bit_length()):
        part = (torch.arange(n, device=device) >> bit & 1).bool()
        yield from (part, ~part)


def _require_convex(lam: Tensor, leak: float, noise: Tensor) -> None:
    least = torch.maximum(noise, SEEN * lam.abs().max())
    if leak > float(least.max()) or bool((lam.amin(1) < -least).any()):
        what = "mixes samples" if leak > float(least.max()) else "is not convex in the output"
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
