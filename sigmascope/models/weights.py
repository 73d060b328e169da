"""The weights of a model, as matrices."""

import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from itertools import product

import torch
from jaxtyping import Complex, Float
from torch import Tensor, nn
from torch.nn import functional as F
from torch.nn.modules.conv import _ConvNd, _ConvTransposeNd

from sigmascope.core.records import Brief, Spectrum
from sigmascope.linalg.krylov import Operator
from sigmascope.linalg.spectra import block_spectrum, spectrum
from sigmascope.models.layers import Call, layers, module_name, plain, transposed

# ------------------------------------------------------------------------------
# Convolutions as the linear maps that they are.


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
    # the kernel laid on the periodic grid; taps that meet on a small grid add up
    taps = weight.to(torch.complex128)
    kernel = taps.new_zeros(*taps.shape[:2], *grid)
    for tap in product(*(range(k) for k in taps.shape[2:])):
        place = tuple(t * d % g for t, d, g in zip(tap, module.dilation, grid, strict=True))
        kernel[(..., *place)] += taps[(..., *tap)]
    hat = torch.fft.fftn(kernel, dim=list(range(2, kernel.ndim)))  # [out, in/g, *grid]
    # frequencies that a stride maps to one, side by side, scaled to keep the map unitary:
    # [out, in/g * aliases, *coarse]
    for dim, step in enumerate(module.stride, start=2):
        if step > 1:
            split = hat.unflatten(dim, (step, -1)).movedim(dim, 2)  # [out, in, alias, ...]
            hat = split.flatten(1, 2) / math.sqrt(step)
    out, rest = hat.shape[:2]
    groups = module.groups
    blocks = hat.reshape(groups, out // groups, rest, -1)
    return blocks.permute(0, 3, 1, 2).flatten(0, 1)


def _margins(module: _ConvNd) -> tuple[int, ...]:
    """Padding per dimension of a transposed convolution, which admits no words for it."""
    assert not isinstance(module.padding, str)
    return module.padding


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


GATES = {"LSTM": "ifgo", "GRU": "rzn", "LSTMCell": "ifgo", "GRUCell": "rzn"}
OPERATOR_WORK = 4e9  # flops that a convolution's operator spectrum may cost before it is declined


# ------------------------------------------------------------------------------
# Every weight of a model as a matrix.


@dataclass(frozen=True, slots=True, repr=False)
class Weight(Brief):
    """One weight as a matrix.

    Attributes:
        site: Name of the parameter; a part of a fused one is `"name[part]"`.
        form: `"matrix"`, or `"kernel"` for a convolution's kernel flattened to
            `[out, in * taps]`, or `"operator"` for the whole periodic convolution.
        matrix: The matrix; for an operator its diagonal blocks `[blocks, out, in]`.
        shape: Of the linear map, `(rows, cols)`.
        how: What an operator was taken on, in words.
        frequencies: Of an operator's blocks, how many there are in each dimension.
    """

    site: str
    form: str
    matrix: Float[Tensor, "out in"] | Complex[Tensor, "blocks out in"]
    shape: tuple[int, int]
    how: str = ""
    frequencies: tuple[int, ...] = ()

    def spectrum(self) -> Spectrum:
        """Its singular values: of the matrix, or of all the blocks of the operator together."""
        if self.form != "operator":
            return spectrum(self.matrix)
        return block_spectrum(self.matrix, self.frequencies, self.shape, f"fft({self.how})")


def as_matrix(weight: Float[Tensor, "out *rest"]) -> Float[Tensor, "out in"]:
    """The weight as the map it applies to one unfolded patch: `[out, everything else]`."""
    return weight.flatten(1) if weight.ndim > 1 else weight[None]


def weights(model: nn.Module) -> Iterator[Weight]:
    """Every weight of two or more dimensions as a matrix, each tied weight once.

    Convolution kernels are flattened (`"kernel"`); the fused gates of recurrent layers and the
    query, key and value of attention are split; what a parametrisation computes is read, not what
    it is computed from.
    """
    seen: dict[int, Tensor] = {}  # the tensors themselves, so that no id is used again
    for name, module in layers(model).items():
        # a layer's own tensors by attribute, as it applies them
        fused = isinstance(module, nn.MultiheadAttention | nn.RNNBase)
        own: list[tuple[str, Tensor]] = [*module.named_parameters(recurse=fused)]
        parametrised = getattr(module, "parametrizations", None)
        if not fused and isinstance(parametrised, nn.ModuleDict):
            own = [*((key, getattr(module, key)) for key in parametrised), *own]
        for part, tensor in own:
            if tensor.ndim < 2 or not tensor.is_floating_point() or id(tensor) in seen:
                continue
            seen[id(tensor)] = tensor
            site, matrix = ".".join(filter(None, (name, part))), plain(tensor)
            if isinstance(module, _ConvNd):
                # `[out, in * taps]` for both kinds; groups are stacked, as the kernel is stored
                if transposed(module):
                    by_group = matrix.unflatten(0, (module.groups, -1)).transpose(1, 2)
                    matrix = by_group.flatten(0, 1)  # of [g, out/g, in/g, *taps]
                yield _weight(site, "kernel", as_matrix(matrix))
                continue
            # one letter for each of the matrices that a parameter stacks
            parameter, letters = part.rsplit(".", 1)[-1], ""
            if isinstance(module, nn.MultiheadAttention):
                letters = "qkv" if parameter == "in_proj_weight" else ""
            elif parameter.startswith(("weight_ih", "weight_hh")):
                kind = module.mode if isinstance(module, nn.RNNBase) else type(module).__name__
                letters = GATES.get(kind, "")
            if not letters:
                yield _weight(site, "matrix", as_matrix(matrix))
                continue
            for letter, rows in zip(letters, matrix.chunk(len(letters)), strict=True):
                yield _weight(f"{site}[{letter}]", "matrix", rows)
    for name, p in model.named_parameters():
        matrix = plain(p).squeeze()
        parametrised = "parametrizations" in name.split(".")
        if id(p) not in seen and not parametrised and matrix.ndim >= 2 and p.is_floating_point():
            yield _weight(name, "matrix", matrix.flatten(1))


def operators(calls: Iterable[Call]) -> Iterator[Weight]:
    """The operator of every convolution on the grid of its first call, if not too dear."""
    seen: set[str] = set()
    for call in calls:
        name = module_name(call.site)
        if isinstance(call.module, _ConvNd) and name not in seen:
            seen.add(name)
            fine = call.output if transposed(call.module) else call.input
            size = tuple(fine.shape[-len(call.module.kernel_size) :])
            site = f"{name}.weight".removeprefix(".")
            if found := operator(call.module, site=site, size=size):
                yield found


def operator(module: nn.Module, *, site: str, size: tuple[int, ...]) -> Weight | None:
    """A convolution's operator on the periodic grid nearest to `size`; None if it is too dear.

    Args:
        module: A convolution.
        site: Name of its weight.
        size: Grid of what it reads; for a transposed convolution, of what it writes.
    """
    assert isinstance(module, _ConvNd)
    # at least as long as `size`, and divided by the stride
    grid = tuple(math.ceil(n / s) * s for n, s in zip(size, module.stride, strict=True))
    rows, cols = module.weight.shape[0] // module.groups, module.weight.shape[1]
    blocks = torch.Size(grid).numel() * module.groups
    if 8.0 * blocks * rows * cols * min(rows, cols) > OPERATOR_WORK:
        return None
    matrix = symbol(module, grid=grid)
    matrix = matrix.mH if transposed(module) else matrix
    count, out, inner = matrix.shape
    words = f"periodic {'x'.join(map(str, grid))} grid"
    coarse = tuple(g // s for g, s in zip(grid, module.stride, strict=True))
    return Weight(site, "operator", matrix, (count * out, count * inner), words, coarse)


def _weight(site: str, form: str, matrix: Tensor) -> Weight:
    return Weight(site, form, matrix, (matrix.shape[0], matrix.shape[1]))
