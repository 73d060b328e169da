"""How well conditioned learning is in each layer: the Gauss-Newton matrix, split into its factors.

In one layer's weights W a piecewise-affine network is affine as long as no unit changes sign, so
that the Gauss-Newton matrix is the Hessian: `Σ_g (M_g D_g)ᵀ H_g (M_g D_g) ⊗ z_g z_gᵀ` with `z_g`
what the layer reads, `M_g D_g` the derivative of the output by what it writes, and `H_g` the second
derivative of the loss by the output. It is `Qᵀ Q` for the matrix Q of the square roots.
"""

import math
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float, Float64
from torch import Tensor, nn
from torch.nn.modules.conv import _ConvNd

from sigmascope.linalg import Route, Spectrum, spectra, spectrum
from sigmascope.probes.batches import Batch, as_tensor, call
from sigmascope.probes.convolutions import patches
from sigmascope.probes.gradients import Loss
from sigmascope.probes.kernels import acts_as_linear
from sigmascope.probes.layers import transposed
from sigmascope.probes.normalisers import Statisticians
from sigmascope.probes.refusals import Refusal
from sigmascope.probes.rows import samples_first
from sigmascope.probes.stillness import still
from sigmascope.probes.tapes import Call, recording

OUTPUTS = 64  # columns of the output that are differentiated at most
BYTES = 2**32  # of adjoints that are held at once
EXACT = 2**22  # entries of Q up to which its small singular values are found without its Gram
BLIND = 1e-8  # of the largest singular value, below which the Gram route sees nothing
MIXED = 1e-6  # of the largest second derivative: above this the loss mixes samples


@dataclass(frozen=True, slots=True)
class Conditioning:
    """One layer's Gauss-Newton matrix and what it is made of.

    Attributes:
        site: The layer.
        root: Singular values of Q; their squares are the eigenvalues of the Gauss-Newton matrix
            that are not zero by construction.
        parameters: Weights and biases of the layer that are trained.
        layers: Singular values of `H_g^(1/2) M_g D_g [outputs, width]` for every sample: the layer
            factor, with the loss.
        features: Singular values of `[z_1, z_2, ...]ᵀ`, with a column of ones where the layer has a
            bias: the data factor. A convolution reads one row for each position.
        precision: Relative rounding of the model's own arithmetic.
    """

    site: str
    root: Spectrum
    parameters: int
    layers: tuple[Spectrum, ...]
    features: Spectrum
    precision: float

    @property
    def rtol(self) -> float:
        """Singular values of Q below this share of the largest cannot be told from zero."""
        floor = 1e-7 if self.root.how.startswith("gram") else 2.0**-46
        return max(floor, 8 * math.sqrt(max(self.root.shape)) * self.precision)


@dataclass(frozen=True, slots=True)
class Conditioned:
    """What was found, in the order of calls, and of which layers nothing could be said."""

    found: tuple[Conditioning, ...]
    silent: dict[str, str]


def conditioning(
    model: nn.Module,
    batch: Batch,
    modules: dict[str, nn.Module],
    frozen: Statisticians,
    *,
    targets: Any,
    loss: Loss | None,
    count: int,
    batch_dim: int,
) -> Conditioned:
    """One forward pass, one backward pass for each output, one factorisation for each layer.

    Without targets and loss, the loss is `(1/n) Σ ‖f(x_i) - y_i‖²`, whose curvature is the same
    whatever the targets.

    Raises:
        Refusal: If the output has too many columns or no row per sample, if the adjoints do not
            fit in memory, or if the loss is not convex in the output or mixes samples.
    """
    frozen.rewind()
    with still(model), torch.enable_grad(), recording(modules, rewrite=frozen.rewrite) as tape:
        out = as_tensor(call(model, batch))[0]
        tape.listening = False
        rows = samples_first(out, count=count, batch_dim=batch_dim)
        flat = _columns(rows)
        roots = _square_roots(rows, loss, targets)
        calls = [c for c in tape.calls if c.module not in frozen.seen]
        _require_room(calls, flat.shape[1])
        grads = [
            torch.autograd.grad(
                flat[:, k].sum(),
                [c.output for c in calls],
                retain_graph=k < flat.shape[1] - 1,
                allow_unused=True,
            )
            for k in range(flat.shape[1])
        ]
    found, silent = [], {}
    for one, per_output in zip(calls, zip(*grads, strict=True), strict=True):
        why = _why_not(one)
        if any(g is None for g in per_output):
            why = "the output does not depend on what it wrote"
        split = [
            samples_first(t, count=count, batch_dim=batch_dim)
            for t in (one.input, *(g for g in per_output if g is not None))
        ]
        if why is None and any(t is None for t in split):
            why = "what it reads or writes cannot be told apart by sample"
        if why is None:
            x, *parts = (t.detach() for t in split if t is not None)
            found.append(_layer(one, x, torch.stack(parts, dim=1), roots))
        else:
            silent[one.site] = why
    return Conditioned(tuple(found), silent)


def _columns(rows: Tensor | None) -> Tensor:
    if rows is None:
        raise Refusal(
            "The output must have one row per sample to be differentiated sample by sample. "
            "Return it with the batch dimension, or say `batch_dim=` (`--batch-dim`)."
        )
    flat = rows.reshape(len(rows), -1)
    if flat.shape[1] > OUTPUTS:
        raise Refusal(
            f"The conditioning needs every output differentiated, {OUTPUTS} at most, got "
            f"{flat.shape[1]} a sample. Wrap the model so that it returns fewer."
        )
    return flat


def _require_room(calls: list[Call], columns: int) -> None:
    held = sum(c.output.numel() * c.output.element_size() for c in calls) * columns
    if held > BYTES:
        raise Refusal(
            f"The adjoints of all layers take {held / 2**30:.1f} GiB on this batch, more than "
            f"{BYTES / 2**30:.0f}. Pass fewer samples."
        )


def _square_roots(rows: Tensor | None, loss: Loss | None, targets: Any) -> Float64[Tensor, "n k k"]:
    """`S` with `Sᵀ S` the second derivative of the loss by each sample's output."""
    assert rows is not None
    n, k = len(rows), rows[0].numel()
    if loss is None or targets is None:
        return math.sqrt(2 / n) * torch.eye(k, dtype=torch.float64).expand(n, k, k)
    f = rows.detach().double().requires_grad_()
    wide = targets.double() if isinstance(targets, Tensor) and targets.is_floating_point() else None
    value = loss(f, targets if wide is None else wide)
    (slope,) = torch.autograd.grad(value, f, create_graph=True)
    if not slope.requires_grad:
        return torch.zeros(n, k, k, dtype=torch.float64)
    by = slope.reshape(n, k)

    def second(cotangent: Tensor) -> Tensor:
        return torch.autograd.grad(by, f, cotangent, retain_graph=True)[0].reshape(n, k)

    H = torch.stack([second(e.expand(n, k)) for e in torch.eye(k, dtype=f.dtype)], dim=1)
    signs = 1.0 - 2.0 * (torch.arange(n) % 2).to(f)[:, None]  # cancels what other samples add
    apart = (second(signs.expand(n, k)) - signs * H.sum(1)).abs().max()
    lam, vectors = torch.linalg.eigh((H + H.mT).cpu() / 2)
    top = lam.abs().max()
    if apart > MIXED * top or lam.min() < -MIXED * top:
        what = "mixes samples" if apart > MIXED * top else "is not convex in the output"
        raise Refusal(
            "`loss` must be a sum over samples of functions that are convex in the output, got one "
            f"that {what}. Leave it out to measure with squared error."
        )
    # directions that the loss ignores: the root of their rounding would look like a small value
    noise = 64 * 2.0**-52 * lam.amax(1, keepdim=True)
    return torch.where(lam > noise, lam, 0.0).sqrt()[:, :, None] * vectors.mT


def _why_not(one: Call) -> str | None:
    module = one.module
    if isinstance(module, nn.Embedding) or not one.input.is_floating_point():
        return "it reads token ids"
    if not any(p.ndim > 1 and p.requires_grad for p in module.parameters(recurse=False)):
        return "its weight is not trained"
    if isinstance(module, _ConvNd):
        return None
    if not acts_as_linear(module, one.input, one.output.detach()):
        return f"the gradient of {type(module).__name__} by its weights is not covered"
    return None


def _layer(one: Call, x: Tensor, J: Tensor, roots: Tensor) -> Conditioning:
    """Q and its factors, from what a layer read and the adjoints `[n, k, ...]`."""
    module = one.module
    biased = any(p.ndim == 1 and p.requires_grad for p in module.parameters(recurse=False))
    wide = torch.promote_types(one.output.dtype, torch.float32)  # more would be zeros after it
    x, J, roots = x.to(wide), J.to(wide), roots.to(x.device, wide)
    J = torch.einsum("njk,nk...->nj...", roots, J)
    rows = _convolution_rows(module, x, J) if isinstance(module, _ConvNd) else _linear_rows(x, J)
    if biased:
        at = (
            range(3, J.ndim) if isinstance(module, _ConvNd) else range(2, J.ndim - 1)
        )  # positions share the bias
        rows = torch.cat([rows, J.sum(tuple(at)) if len(at) else J], dim=2)
    Q = rows.flatten(0, 1)
    precision = torch.finfo(one.output.dtype).eps
    # below the rounding of a float32 model there is nothing for an exact factorisation to find
    fine: Route = "gram" if precision > BLIND else "auto"
    return Conditioning(
        one.site,
        spectrum(Q, route="exact" if fine == "auto" and Q.numel() <= EXACT else "gram"),
        Q.shape[1],
        tuple(spectra(list(J.flatten(2)), route=fine)),
        spectrum(_features(module, x, biased=biased), route=fine),
        precision,
    )


def _linear_rows(x: Float[Tensor, "n *p i"], J: Tensor) -> Float[Tensor, "n k oi"]:
    a = x.flatten(1, -2) if x.ndim > 2 else x[:, None]  # [n, p, i]
    d = J.flatten(2, -2) if J.ndim > 3 else J[:, :, None]  # [n, k, p, o]
    return torch.einsum("nkpo,npi->nkoi", d, a).flatten(2)


def _convolution_rows(module: _ConvNd, x: Tensor, J: Tensor) -> Float[Tensor, "n k w"]:
    n, k = J.shape[:2]
    groups = module.groups
    if transposed(module):  # the adjoint of a convolution: its patches are taken of what it writes
        cut = patches(module, J.flatten(0, 1)).unflatten(0, (n, k))  # [n, k, g, w, p]
        fixed = x.flatten(2).unflatten(1, (groups, -1))[:, None]  # [n, 1, g, i, p]
        return (fixed @ cut.mT).flatten(2)
    cut = patches(module, x)  # [n, g, w, p]
    moving = J.flatten(3).unflatten(2, (groups, -1)).transpose(1, 2)  # [n, g, k, o, p]
    stacked = moving.flatten(2, 3) @ cut.mT  # every output in one product
    return stacked.unflatten(2, (k, -1)).transpose(1, 2).flatten(2)


def _features(module: nn.Module, x: Tensor, *, biased: bool) -> Float[Tensor, "rows inputs"]:
    if transposed(module):
        Z = x.flatten(2).mT.flatten(0, 1)
    elif isinstance(module, _ConvNd):
        Z = patches(module, x).permute(0, 1, 3, 2).flatten(0, 2)
    else:
        Z = x.reshape(-1, x.shape[-1])
    return torch.cat([Z, Z.new_ones(len(Z), 1)], dim=1) if biased else Z
