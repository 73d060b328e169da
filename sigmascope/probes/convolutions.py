"""Convolutions as the linear maps that they are."""

import math
from functools import partial
from itertools import product

import torch
from jaxtyping import Complex, Float
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.modules.conv import _ConvNd, _ConvTransposeNd

from sigmascope.linalg.krylov import Operator

CONVOLVE = {1: F.conv1d, 2: F.conv2d, 3: F.conv3d}
TRANSPOSE = {1: F.conv_transpose1d, 2: F.conv_transpose2d, 3: F.conv_transpose3d}


def patches(module: nn.Module, x: Float[Tensor, "n c *grid"]) -> Float[Tensor, "n g k p"]:
    """What each output position of a convolution reads, group by group.

    For a transposed convolution, `x` is in the space it writes.
    """
    assert isinstance(module, _ConvNd)
    padded = _padded(module, x)
    dims = range(2, x.ndim)
    for dim, size, stride, dilation in zip(
        dims, module.kernel_size, module.stride, module.dilation, strict=True
    ):
        padded = padded.unfold(dim, (size - 1) * dilation + 1, stride)[..., ::dilation]
    n, channels = x.shape[:2]
    spatial = len(dims)
    grid, window = padded.shape[2 : 2 + spatial], padded.shape[2 + spatial :]
    by_group = padded.reshape(n, module.groups, channels // module.groups, *grid, *window)
    order = (0, 1, 2, *range(3 + spatial, 3 + 2 * spatial), *range(3, 3 + spatial))
    return by_group.permute(order).reshape(n, module.groups, -1, math.prod(grid))


def _padded(module: _ConvNd, x: Tensor) -> Tensor:
    if isinstance(module, _ConvTransposeNd):
        return F.pad(x, [p for size in reversed(_margins(module)) for p in (size, size)])
    mode = "constant" if module.padding_mode == "zeros" else module.padding_mode
    return F.pad(x, module._reversed_padding_repeated_twice, mode=mode)


def symbol(module: nn.Module, *, grid: tuple[int, ...]) -> Complex[Tensor, "blocks out in"]:
    """The blocks that a convolution with circular padding falls into under the Fourier transform.

    The singular values of the operator on a periodic `grid` are those of all the blocks together
    (Sedghi, Gupta & Long 2019, Theorem 6). A stride folds the frequencies that it cannot tell
    apart into one block; groups give separate blocks; a transposed convolution is the adjoint of
    the convolution with the same kernel.

    Args:
        module: A convolution, transposed or not, of one to three dimensions.
        grid: Length of each dimension on the fine side (what a convolution reads); divisible by
            the stride.
    """
    assert isinstance(module, _ConvNd)
    weight = module.weight.detach()
    kernel = _on_grid(weight.to(torch.complex128), grid, module.dilation)
    hat = torch.fft.fftn(kernel, dim=list(range(2, kernel.ndim)))  # [out, in/g, *grid]
    folded = _folded(hat, module.stride)  # [out, in/g * aliases, *coarse]
    out, rest = folded.shape[:2]
    groups = module.groups
    blocks = folded.reshape(groups, out // groups, rest, -1)
    return blocks.permute(0, 3, 1, 2).flatten(0, 1)


def _on_grid(weight: Tensor, grid: tuple[int, ...], dilation: tuple[int, ...]) -> Tensor:
    """The kernel laid on the periodic grid; taps that meet on a small grid add up."""
    laid = weight.new_zeros(*weight.shape[:2], *grid)
    for tap in product(*(range(k) for k in weight.shape[2:])):
        place = tuple(t * d % g for t, d, g in zip(tap, dilation, grid, strict=True))
        laid[(..., *place)] += weight[(..., *tap)]
    return laid


def _folded(hat: Tensor, stride: tuple[int, ...]) -> Tensor:
    """Frequencies that a stride maps to one, side by side, scaled to keep the map unitary."""
    for dim, step in enumerate(stride, start=2):
        if step > 1:
            split = hat.unflatten(dim, (step, -1)).movedim(dim, 2)  # [out, in, alias, ...]
            hat = split.flatten(1, 2) / math.sqrt(step)
    return hat


def _margins(module: _ConvNd) -> tuple[int, ...]:
    """Padding per dimension of a transposed convolution, which admits no words for it."""
    assert not isinstance(module.padding, str)
    return module.padding


def periodic_grid(module: nn.Module, size: tuple[int, ...]) -> tuple[int, ...]:
    """The nearest grid to `size`, at least as long, that the stride divides."""
    assert isinstance(module, _ConvNd)
    return tuple(math.ceil(n / s) * s for n, s in zip(size, module.stride, strict=True))


def convolution_operator(module: nn.Module, *, grid: tuple[int, ...]) -> Operator:
    """The convolution as it is, with its own padding and stride, on inputs of size `grid`."""
    assert isinstance(module, _ConvNd)
    weight = module.weight.detach().double()
    forward = partial(_convolved, module, weight)
    channels = (module.in_channels, *grid)
    zero = torch.zeros(1, *channels, dtype=torch.float64, device=weight.device)
    shape = forward(zero).shape[1:]

    def apply(x: Tensor) -> Tensor:
        return forward(x.mT.reshape(-1, *channels)).flatten(1).mT

    def adjoint(y: Tensor) -> Tensor:
        start = torch.zeros(y.shape[1], *channels, dtype=y.dtype, device=y.device)
        pulled = torch.func.vjp(forward, start)[1](y.mT.reshape(-1, *shape))[0]
        return pulled.flatten(1).mT

    return Operator((math.prod(shape), math.prod(channels)), apply, adjoint, weight)


def _convolved(module: _ConvNd, weight: Tensor, x: Tensor) -> Tensor:
    """With another weight, in another precision, and without a bias."""
    spatial, stride, groups, apart = weight.ndim - 2, module.stride, module.groups, module.dilation
    if isinstance(module, _ConvTransposeNd):
        ends = _margins(module), module.output_padding
        return TRANSPOSE[spatial](x, weight, None, stride, *ends, groups, apart)
    return CONVOLVE[spatial](_padded(module, x), weight, None, stride, 0, apart, groups)
