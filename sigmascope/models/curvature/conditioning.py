"""How well conditioned learning is in each layer: the Gauss-Newton matrix, split into its factors.

In one layer's weights W a piecewise-affine network is affine as long as no unit changes sign, so
that the Gauss-Newton matrix is the Hessian: `Σ_g (M_g D_g)ᵀ H_g (M_g D_g) ⊗ z_g z_gᵀ` with `z_g`
what the layer reads, `M_g D_g` the derivative of the output by what it writes, and `H_g` the second
derivative of the loss by the output. It is `Qᵀ Q` for the matrix Q of the square roots.
"""

import math
from dataclasses import dataclass, replace
from typing import Any

import torch
from jaxtyping import Float, Float64
from torch import Tensor, nn
from torch.nn.modules.conv import _ConvNd

from sigmascope.core.guard import Refusal
from sigmascope.core.records import Spectrum
from sigmascope.linalg.dense import EPS
from sigmascope.linalg.spectra import Route, spectra, spectrum
from sigmascope.models.jacobian.adjoints import kernel_gradients
from sigmascope.models.layers import Call, explaining, is_reparametrised, transposed
from sigmascope.models.samples import Loss, in_double
from sigmascope.models.tape import Scene
from sigmascope.models.weights import patches

# ------------------------------------------------------------------------------
# The square root of a Gauss-Newton matrix: that of the loss, times the outputs' gradients.


SEEN = 1e-6  # of the largest second derivative: below this a loss is convex, and mixes no samples
ROUNDED = 64 * EPS  # of the largest number of which a second derivative is the difference


def square_roots(rows: Tensor | None, loss: Loss | None, targets: Any) -> Float64[Tensor, "n k k"]:
    """`S` with `Sᵀ S` the second derivative of the loss by each sample's output."""
    assert rows is not None
    n, k = len(rows), rows[0].numel()
    if loss is None or targets is None:
        return math.sqrt(2 / n) * torch.eye(k, dtype=torch.float64).expand(n, k, k)
    floating = isinstance(targets, Tensor) and targets.is_floating_point()
    wanted = targets.double() if floating else targets
    f, loss = rows.detach().double(), in_double(loss)
    H, leak = _second_derivatives(f, loss, wanted)
    if not bool(H.isfinite().all()):
        raise Refusal(
            "The second derivative of the loss by the output must be finite, got outputs up to "
            f"{float(f.abs().max()):.3g} at which it is not. Scale the network down."
        )
    lam, vectors = torch.linalg.eigh(H)
    # Where outputs are large a loss may be flat, as cross-entropy is where it is sure: its
    # curvature `p (1 - p)` is then a small difference of numbers near one, and rounds as these
    # do. Of what size they are is seen at outputs of one, where the curvature is as large as they.
    near, _ = _second_derivatives(f / f.abs().max().clamp_min(1.0), loss, wanted)
    size = torch.linalg.eigvalsh(near.nan_to_num(0.0, 0.0, 0.0)).abs().sum(1)
    unit = torch.where(near.isfinite().all(2).all(1), size, 0.0)
    # directions that the loss ignores: the root of their rounding would look like a small value
    noise = ROUNDED * torch.maximum(lam.amax(1), unit)
    least = torch.maximum(noise, SEEN * lam.abs().max())
    if leak > float(least.max()) or bool((lam.amin(1) < -least).any()):
        what = "mixes samples" if leak > float(least.max()) else "is not convex in the output"
        raise Refusal(
            "`loss` must be a sum over samples of functions that are convex in the output, got one "
            f"that {what}. Leave it out to measure with squared error."
        )
    return torch.where(lam > noise[:, None], lam, 0.0).sqrt()[:, :, None] * vectors.mT


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
    for bit in range((n - 1).bit_length()):  # of any two samples one changes without the other
        part = (torch.arange(n, device=f.device) >> bit & 1).bool()
        for still in (part, ~part):
            leak = max(leak, float(second(probe * ~still[:, None])[still].abs().max()))
    return ((H + H.mT) / 2).cpu(), leak


def root_rows(module: nn.Module, x: Tensor, J: Tensor, *, biased: bool) -> Float[Tensor, "n k w"]:
    """The gradients of the outputs by the weight, and by the bias."""
    conv = isinstance(module, _ConvNd)
    if conv:
        rows = kernel_gradients(module, x, J).flatten(2)
    else:
        a = x.flatten(1, -2) if x.ndim > 2 else x[:, None]  # [n, p, i]
        d = J.flatten(2, -2) if J.ndim > 3 else J[:, :, None]  # [n, k, p, o]
        rows = torch.einsum("nkpo,npi->nkoi", d, a).flatten(2)
    if not biased:
        return rows
    at = tuple(range(3, J.ndim) if conv else range(2, J.ndim - 1))  # positions share the bias
    return torch.cat([rows, J.sum(at) if at else J], dim=2)


def feature_rows(module: nn.Module, x: Tensor, *, biased: bool) -> Float[Tensor, "rows inputs"]:
    """What the layer reads, one row for each position, with a one where it has a bias."""
    if transposed(module):
        Z = x.flatten(2).mT.flatten(0, 1)
    elif isinstance(module, _ConvNd):
        Z = patches(module, x).permute(0, 1, 3, 2).flatten(0, 2)
    else:
        Z = x.reshape(-1, x.shape[-1])
    return torch.cat([Z, Z.new_ones(len(Z), 1)], dim=1) if biased else Z


OUTPUTS = 64  # columns of the output that are differentiated at most
BYTES = 2**32  # of adjoints that are held at once
EXACT = 2**22  # entries of Q up to which its small singular values are found without its Gram
BLIND = 1e-8  # of the largest singular value, below which the Gram route sees nothing


@dataclass(frozen=True, slots=True)
class Conditioning:
    """One layer's Gauss-Newton matrix and what it is made of.

    Attributes:
        site: The layer; the first of its uses where a weight is used more than once.
        root: Singular values of Q; their squares are the eigenvalues of the Gauss-Newton matrix
            that are not zero by construction.
        parameters: Weights and biases of the layer that are trained.
        layers: Singular values of `H_g^(1/2) M_g D_g [outputs, width]` for every sample: the layer
            factor, with the loss.
        features: Singular values of `[z_1, z_2, ...]ᵀ`, with a column of ones where the layer has a
            bias: the data factor. A convolution reads one row for each position.
        precision: Relative rounding of the model's own arithmetic.
        uniform: Whether every unit of the layer reads the same features, each position for itself;
            not so of groups, nor of transposed convolutions, whose positions overlap.
    """

    site: str
    root: Spectrum
    parameters: int
    layers: tuple[Spectrum, ...]
    features: Spectrum
    precision: float
    uniform: bool = True

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


def conditioning(scene: Scene) -> Conditioned:
    """One forward pass, one backward pass for each output, one factorisation for each layer.

    Without targets and loss, the loss is `(1/n) Σ ‖f(x_i) - y_i‖²`, whose curvature is the same
    whatever the targets.

    Raises:
        Refusal: If the output has too many columns or no row per sample, if the adjoints do not
            fit in memory, or if the loss is not convex in the output or mixes samples.
    """
    with scene.on_tape() as run:
        flat = run.flat
        columns = flat.shape[1]
        if columns > OUTPUTS:
            raise Refusal(
                f"The conditioning needs every output differentiated, {OUTPUTS} at most, got "
                f"{columns} a sample. Wrap the model so that it returns fewer."
            )
        roots = square_roots(scene.split(run.output), scene.loss, scene.targets)
        held = sum(c.output.numel() * c.output.element_size() for c in run.layers) * flat.shape[1]
        if held > BYTES:
            raise Refusal(
                f"The adjoints of all layers take {held / 2**30:.1f} GiB on this batch, more than "
                f"{BYTES / 2**30:.0f}. Pass fewer samples."
            )
        # the gradients of every output's sum, by what each call wrote; None where there is none
        live = [c.output for c in run.layers if c.output.requires_grad]  # others ran without
        rows: list[tuple[Tensor | None, ...]] = [(None,) * columns] * len(live)
        if live and flat.requires_grad:
            with explaining():
                per_output = [
                    torch.autograd.grad(
                        flat[:, k].sum(), live, retain_graph=k < columns - 1, allow_unused=True
                    )
                    for k in range(columns)
                ]
            rows = [*zip(*per_output, strict=True)]
        found = iter(rows)
        none = (None,) * columns
        grads = [next(found) if c.output.requires_grad else none for c in run.layers]
    uses, silent = [], {}
    for call, per_output in zip(run.layers, grads, strict=True):
        use = _use(scene, call, per_output)
        if isinstance(use, Use):
            uses.append(use)
        else:
            silent[call.site] = use
    # the uses of each weight, whose curvature they make together; all of them, or none
    groups: dict[int, list[Use]] = {}
    for use in uses:
        groups.setdefault(_weight_of(use.call), []).append(use)
    whole = []
    for weight, group in groups.items():
        everywhere = [c for c in run.layers if _weight_of(c) == weight]
        missing = [c.site for c in everywhere if c.site in silent]
        owned = {frozenset(map(id, c.module.parameters(recurse=False))) for c in everywhere}
        if not missing and len(owned) == 1:
            whole.append(group)
            continue
        other = f"at `{missing[0]}` it is not covered" if missing else "with another bias"
        silent |= {use.call.site: f"its weight is used elsewhere too, {other}" for use in group}
    told = []
    for group in whole:
        layer = _layer(group, roots)
        if layer.rtol < 1:
            told.append(layer)
            continue
        dtype = str(group[0].call.output.dtype).removeprefix("torch.")
        why = f"in {dtype} rounding may be as large as what is measured: convert to float32 first"
        silent |= {use.call.site: why for use in group}
    return Conditioned(tuple(told), silent)


def _use(scene: Scene, call: Call, grads: tuple[Tensor | None, ...]) -> "Use | str":
    """What one call of a layer adds to the curvature; or why nothing is known of it."""
    whole = [g for g in grads if g is not None]
    if len(whole) < len(grads):
        return "the output does not depend on the (first) tensor that it wrote"
    module = call.module
    if isinstance(module, nn.Embedding) or not call.input.is_floating_point():
        return "it reads token ids"
    if is_reparametrised(module):
        return "its weight is made of other parameters (a parametrization, a mask)"
    if not any(p.ndim > 1 and p.requires_grad for p in module.parameters(recurse=False)):
        return "its weight is not trained"
    convolves = isinstance(module, _ConvNd)
    if not convolves and not call.is_linear:
        return f"the gradient of {type(module).__name__} by its weights is not covered"
    split = [s.detach() for t in (call.input, *whole) if (s := scene.split(t)) is not None]
    if len(split) < 1 + len(whole):
        return "what it reads or writes cannot be told apart by sample"
    if not all(bool(t.isfinite().all()) for t in split):
        return "what it reads or its derivatives are not finite"
    return Use(call, split[0], torch.stack(split[1:], dim=1))


@dataclass(frozen=True, slots=True)
class Use:
    """One use of a weight.

    Attributes:
        call: Of its module.
        x: What it read, samples first.
        J: Derivatives of the outputs by what it wrote, `[n, k, ...]`.
    """

    call: Call
    x: Tensor
    J: Tensor


def _weight_of(call: Call) -> int:
    """Which weight a layer applies; itself where that is a function of several."""
    owned = [p for p in call.module.parameters(recurse=False) if p.ndim > 1]
    return id(owned[0] if len(owned) == 1 else call.module)


def _layer(group: list[Use], roots: Tensor) -> Conditioning:
    """Q and its factors, from all uses of a weight; they add up, as positions do."""
    module, dtype = group[0].call.module, group[0].call.output.dtype
    biased = any(p.ndim == 1 and p.requires_grad for p in module.parameters(recurse=False))
    # What a float32 model computed is rounded once more when it is multiplied, unless that is done
    # in float64, for which there is room while Q is small.
    own = sum(p.numel() for p in module.parameters(recurse=False))
    small = group[0].J.shape[:2].numel() * own <= EXACT
    wide = torch.float64 if small else torch.promote_types(dtype, torch.float32)
    rows, after, features = [], [], []
    for use in group:
        x, J = use.x.to(wide), use.J.to(wide)
        J = torch.einsum("njk,nk...->nj...", roots.to(x.device, wide), J)
        rows.append(root_rows(module, x, J, biased=biased))
        after.append(J.flatten(2))
        features.append(feature_rows(module, x, biased=biased))
    Q = torch.stack(rows).sum(0).flatten(0, 1)
    # at least the norm of what forming Q rounds: products of these, added over positions
    rounding = 0.0
    for J, Z in zip(after, features, strict=True):
        sizes = J.double().flatten(1).norm(dim=1) * Z.double().reshape(len(J), -1).norm(dim=1)
        terms = len(Z) // len(J) + 4
        rounding += terms * torch.finfo(J.dtype).eps * float(sizes.norm())
    precision = torch.finfo(dtype).eps
    # below the rounding of a float32 model there is nothing for an exact factorisation to find
    fine: Route = "gram" if precision > BLIND else "auto"
    root = spectrum(Q, route="exact" if fine == "auto" and Q.numel() <= EXACT else "gram")
    return Conditioning(
        group[0].call.site,
        replace(root, low=(root.low - rounding).clamp_min(0), high=root.high + rounding),
        Q.shape[1],
        tuple(spectra(list(torch.cat(after, dim=2)), route=fine)),
        spectrum(torch.cat(features), route=fine),
        precision,
        not transposed(module) and getattr(module, "groups", 1) == 1,
    )
