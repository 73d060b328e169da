"""Each layer's share of the neural tangent kernel, from adjoints and what the layer read."""

from collections.abc import Iterator, Mapping
from types import MappingProxyType

import torch
from jaxtyping import Float, Shaped
from torch import Tensor, nn
from torch.nn.modules.conv import _ConvNd

from sigmascope.linalg import sums
from sigmascope.probes.convolutions import patches
from sigmascope.probes.execution.layers import NORMALISERS, WHOLE, channel_dim, transposed
from sigmascope.probes.execution.rounding import rounding

COVERED = (nn.Linear, nn.Embedding, _ConvNd, *NORMALISERS)
BLOCK = 256  # numbers whose squares are added up in the narrow format
ENTRIES = 2**21  # of a weight that are copied to float64 at once
ROWS = 64  # of what a layer reads by which it is told whether it is linear
NARROW = 1e-24  # squares above this, and below its inverse, lost nothing there
PerSample = Float[Tensor, "n k"]


def share(
    module: nn.Module,
    x: Shaped[Tensor, "n *inputs"],
    J: Float[Tensor, "n k *outputs"],
    *,
    normal: Float[Tensor, "n *outputs"] | None = None,
    norm_sq: PerSample | None = None,
) -> PerSample | None:
    """`‖∂ f_k(x_i) / ∂ parameters‖²` of one call of one layer, per sample and output.

    Args:
        module: The layer or normaliser.
        x: What it read, samples first.
        J: `∂ f_k(x_i) / ∂` what it wrote, samples first.
        normal: For a normaliser, what it multiplies by its weight.
        norm_sq: `‖J‖²` per sample and output, where it is known already.

    Returns:
        The squared norms, or None for a kind of layer whose parameters this does not cover.
        Frozen parameters count nothing.
    """
    if isinstance(module, NORMALISERS):
        return _normaliser(module, J, normal)
    if isinstance(module, _ConvNd):
        return _convolution(module, x, J)
    if isinstance(module, nn.Embedding):
        return _embedding(module, x, J)
    if isinstance(module, nn.Linear):
        weight, bias = module.weight, module.bias
    else:
        weight, bias = _acts_as_linear(module)
    if weight is None or J.ndim != x.ndim + 1:
        return None
    biased = bias is not None and bias.requires_grad
    if x[0].numel() == x.shape[-1]:  # one position: ‖d aᵀ‖² = ‖d‖² ‖a‖²
        size = _square_sum(J) if norm_sq is None else norm_sq
        reads = x.flatten(1).double().square().sum(1) * float(weight.requires_grad)
        return size * (reads + float(biased))[:, None]
    return _linear(x, J, trains=weight.requires_grad, bias=biased)


def _linear(x: Tensor, J: Tensor, *, trains: bool, bias: bool) -> PerSample:
    a, d = x.flatten(1, -2), J.flatten(2, -2)  # [n, p, i], [n, k, p, o]
    total = _contracted(a, d) if trains else d.new_zeros(d.shape[:2], dtype=torch.float64)
    return total + _square_sum(d.sum(2)) if bias else total


def _contracted(a: Float[Tensor, "n p i"], d: Float[Tensor, "n k p o"]) -> PerSample:
    """`‖Σ_p d_p a_pᵀ‖²`, by whichever of the two ways is cheaper."""
    positions, inputs, outputs = a.shape[1], a.shape[2], d.shape[3]
    if positions * (inputs + outputs) < inputs * outputs:
        gram = a.double() @ a.double().mT  # [n, p, p]
        by_output = (dk.double() for dk in d.unbind(1))
        return torch.stack([(gram * (dk @ dk.mT)).sum((1, 2)) for dk in by_output], dim=1)
    stacked = d.transpose(2, 3).flatten(1, 2) @ a  # [n, k * o, i]
    return _square_sum(stacked.unflatten(1, (d.shape[1], outputs)))


def _square_sum(parts: Float[Tensor, "n k *rest"]) -> PerSample:
    """Sums of squares to some 1e-7, in blocks of the narrow format where nothing leaves its range.

    A copy in float64 takes thirty times as long, most of the cost of a convolution's share.
    """
    flat = parts.reshape(*parts.shape[:2], -1)
    if flat.dtype != torch.float64:
        narrow = flat.float()
        whole = narrow.shape[2] // BLOCK * BLOCK
        blocks = narrow[..., :whole].unflatten(2, (-1, BLOCK)) if whole else narrow[:, :, None, :0]
        sizes = [torch.linalg.vector_norm(part, dim=-1) for part in (blocks, narrow[..., whole:])]
        total = sizes[0].double().square().sum(-1) + sizes[1].double().square()
        if bool(((total > NARROW) & (total < 1 / NARROW)).all()):
            return total
    wide = flat.double()
    return torch.einsum("nkd,nkd->nk", wide, wide)


def kernel_gradients(module: nn.Module, x: Tensor, J: Tensor) -> Float[Tensor, "n k g i w"]:
    """The gradients of the outputs by a convolution's kernel, group by group."""
    assert isinstance(module, _ConvNd)
    n, k = J.shape[:2]
    groups = module.groups
    if transposed(module):  # the adjoint of a convolution: its patches are taken of what it writes
        cut = patches(module, J.flatten(0, 1)).unflatten(0, (n, k))  # [n, k, g, w, p]
        fixed = x.flatten(2).unflatten(1, (groups, -1))[:, None]  # [n, 1, g, i, p]
        return fixed @ cut.mT
    cut = patches(module, x)  # [n, g, w, p]
    moving = J.flatten(3).unflatten(2, (groups, -1)).transpose(1, 2)  # [n, g, k, o, p]
    stacked = moving.flatten(2, 3) @ cut.mT  # every output in one product
    return stacked.unflatten(2, (k, -1)).transpose(1, 2)


def _convolution(module: _ConvNd, x: Tensor, J: Tensor) -> PerSample:
    grads = kernel_gradients(module, x, J)
    total = _square_sum(grads) * float(module.weight.requires_grad)
    if module.bias is not None and module.bias.requires_grad:
        total = total + _square_sum(J.flatten(3).sum(3))
    return total


def _embedding(module: nn.Embedding, x: Tensor, J: Tensor) -> PerSample:
    d = J.reshape(*J.shape[:2], -1, J.shape[-1]).double()  # [n, k, t, o]; one row where x is [n]
    tokens = x.reshape(len(x), -1)  # [n, t]
    same = (tokens[:, :, None] == tokens[:, None]).double()
    if module.padding_idx is not None:
        same = same * (tokens != module.padding_idx)[:, :, None]
    total = torch.stack([(same * (dk @ dk.mT)).sum((1, 2)) for dk in d.unbind(1)], dim=1)
    return total * float(module.weight.requires_grad)


def _normaliser(module: nn.Module, J: Tensor, normal: Tensor | None) -> PerSample | None:
    own = dict(module.named_parameters(recurse=False))
    weight, bias = own.get("weight"), own.get("bias")
    if weight is None and bias is None:
        return J.new_zeros(J.shape[:2], dtype=torch.float64)
    if weight is None or normal is None:
        return None
    per_channel = channel_dim(module, normal)
    keep = (
        [per_channel] if weight.ndim == 1 else list(range(normal.ndim - weight.ndim, normal.ndim))
    )
    dims = [d + 1 for d in range(1, normal.ndim) if d not in keep]
    total = J.new_zeros(J.shape[:2], dtype=torch.float64)
    for tensor, grad in ((weight, J * normal[:, None]), (bias, J)):
        if tensor is not None and tensor.requires_grad:
            total = total + _square_sum(grad.sum(dims) if dims else grad)
    return total


def covers(module: nn.Module) -> bool:
    """Whether `share` may cover this kind of module."""
    return isinstance(module, COVERED) or _acts_as_linear(module)[0] is not None


def _acts_as_linear(module: nn.Module) -> tuple[Tensor | None, Tensor | None]:
    """The weight and bias of a module that owns just those; whether it is linear is tested."""
    own = {} if isinstance(module, WHOLE) else dict(module.named_parameters(recurse=False))
    matrices = [p for p in own.values() if p.ndim == 2]
    vectors = [p for p in own.values() if p.ndim == 1]
    if len(matrices) != 1 or len(vectors) > 1 or len(own) != 1 + len(vectors):
        return None, None
    return matrices[0], vectors[0] if vectors else None


def acts_as_linear(module: nn.Module, x: Tensor, y: Tensor) -> bool:
    """Whether what a module wrote is what it read times its one matrix, plus its one vector.

    True of the kinds that are known to; decides by the numbers for others, so that a custom layer
    is covered whichever way it stores its weight.
    """
    if isinstance(module, nn.Embedding) and type(module) is not nn.Embedding:
        return _looks_up(module, x, y)
    if _acts_as_linear(module)[0] is None or isinstance(module, COVERED):
        return isinstance(module, COVERED)
    return x.is_floating_point() and _orientation(module, x, y) is not None


def _looks_up(module: nn.Embedding, x: Tensor, y: Tensor) -> bool:
    """Whether a class of its own wrote the rows that it was asked for, and not those of places."""
    rows = module.weight.detach()
    if x.is_floating_point() or y.shape != (*x.shape, rows.shape[1]):
        return False
    return int(x.min()) >= 0 and int(x.max()) < len(rows) and torch.equal(rows[x.long()], y)


def _orientation(module: nn.Module, x: Tensor, y: Tensor) -> bool | None:
    """Whether a module's matrix is stored as `[in, out]`; None where it is not applied at all."""
    weight, bias = _acts_as_linear(module)
    assert weight is not None
    rest = None if bias is None else bias.detach()
    for turned, W in ((False, weight), (True, weight.mT)):
        fits = x.shape[-1] == W.shape[1] and y.shape == (*x.shape[:-1], W.shape[0])
        # as it is first: a copy of the weight in float64 takes longer than the product
        kinds = (y.dtype, torch.float64) if fits else ()
        if any(_wrote(x, y, W.detach(), rest, kind) for kind in kinds):
            return turned
    return None


def _wrote(x: Tensor, y: Tensor, W: Tensor, bias: Tensor | None, kind: torch.dtype) -> bool:
    """Whether `y = x Wᵀ + bias`, up to the rounding of `y`."""
    read, wrote = _some(x), _some(y).double()
    kinds = {t.dtype for t in (read, W, y if bias is None else bias)}
    if kind != torch.float64 and kinds != {kind}:
        return False
    # by some units at a time: a copy in float64 may be the largest tensor there is
    units = W.split(max(1, ENTRIES // W.shape[1]))
    expected = torch.cat([(read.to(kind) @ some.to(kind).mT).double() for some in units], -1)
    expected = expected if bias is None else expected + bias.double()
    scale = max(float(expected.abs().amax()), 1e-300)
    room = rounding(y.dtype, 64 * x.shape[-1] ** 0.5) * scale
    return float((expected - wrote).abs().amax()) <= room


def _some(t: Tensor) -> Tensor:
    """Rows from first to last, as many as tell one map from another."""
    flat = t.reshape(-1, t.shape[-1])
    return flat[torch.linspace(0, len(flat) - 1, min(len(flat), ROWS)).long()]


def implied(
    module: nn.Module,
    x: Tensor,
    y: Tensor,
    delta: Tensor,
    *,
    normal: Tensor | None = None,
    probes: Mapping[nn.Parameter, Tensor] = MappingProxyType({}),
) -> Iterator[tuple[nn.Parameter, Tensor, float]]:
    """What the formulas of `share` take for the gradient of each parameter in one call.

    Args:
        module: The layer or normaliser.
        x: What it read.
        y: What it wrote.
        delta: The derivative by what it wrote.
        normal: For a normaliser, what it multiplies by its weight.
        probes: Vectors that gradients are multiplied with, which spares the gradients themselves.

    Yields:
        Trained parameters that the formulas speak of, their gradients (or the products of these
        with their probes), and the size that these would have if nothing cancelled.
    """
    weight, bias = getattr(module, "weight", None), getattr(module, "bias", None)
    reads: Tensor | None = x
    if isinstance(module, NORMALISERS):
        reads = normal
    elif not isinstance(module, COVERED):
        weight, bias = _acts_as_linear(module)
    if reads is None or not acts_as_linear(module, x, y):
        return
    size = sums.norm(delta)
    if isinstance(weight, nn.Parameter) and weight.requires_grad:
        found = _weight_gradient(module, weight, reads, y, delta, probes.get(weight))
        if found is not None:
            most = 1.0 if isinstance(module, nn.Embedding) else sums.norm(reads)
            yield weight, found, size * most
    if isinstance(bias, nn.Parameter) and bias.requires_grad:
        yield bias, _summed_to(module, bias, delta), size * (delta.numel() / bias.numel()) ** 0.5


def _weight_gradient(
    module: nn.Module,
    weight: nn.Parameter,
    x: Tensor,
    y: Tensor,
    delta: Tensor,
    probe: Tensor | None,
) -> Tensor | None:
    if isinstance(module, NORMALISERS):
        return probed(_summed_to(module, weight, delta * x), probe)
    if isinstance(module, _ConvNd):
        kind = next(c for c in type(module).__mro__ if c.__module__ == nn.Conv2d.__module__)
        with torch.enable_grad():
            again = kind.forward(module, x.detach())
            if again.shape != delta.shape:  # asked for a size of its own
                return None
            return probed(torch.autograd.grad(again, weight, delta)[0], probe)
    if isinstance(module, nn.Embedding):
        rows, ids = delta.reshape(-1, weight.shape[1]), x.reshape(-1)
        if module.padding_idx is not None:
            rows = rows * (ids != module.padding_idx)[:, None]
        rows = probed(rows, probe)
        return rows.new_zeros(len(weight), *rows.shape[1:]).index_add(0, ids.long(), rows)
    a, d = x.reshape(-1, x.shape[-1]), delta.reshape(-1, delta.shape[-1])
    turned = weight.shape == (a.shape[1], d.shape[1])
    if weight.shape[0] == weight.shape[1]:  # of others the shape tells
        turned = not isinstance(module, COVERED) and _orientation(module, x, y)
    left, right = (a, d) if turned else (d, a)
    if (left.shape[1], right.shape[1]) != weight.shape:
        return None
    return left.mT @ probed(right, probe)


def probed(gradient: Tensor, probe: Tensor | None) -> Tensor:
    """A gradient times the vector that it is looked at through, where there is one."""
    return gradient if probe is None else gradient.flatten(1) @ probe


def _summed_to(module: nn.Module, like: Tensor, values: Tensor) -> Tensor:
    """Sum over all but the dimensions of a scale or shift."""
    if like.ndim == 1:
        channels = values.ndim - 1
        if isinstance(module, (_ConvNd, *NORMALISERS)):
            channels = channel_dim(module, values)
        return values.sum([d for d in range(values.ndim) if d != channels])
    return values.sum(list(range(values.ndim - like.ndim)))
