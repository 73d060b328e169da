"""The weights of a model, as matrices."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Complex, Float
from torch import Tensor, nn
from torch.nn.modules.conv import _ConvNd

from sigmascope.linalg.spectra import spectra
from sigmascope.probes.convolutions import periodic_grid, symbol
from sigmascope.probes.execution.hooks import Call, module_name
from sigmascope.probes.execution.layers import layers, transposed
from sigmascope.probes.execution.refusals import plain
from sigmascope.records import Spectrum

GATES = {"LSTM": "ifgo", "GRU": "rzn", "LSTMCell": "ifgo", "GRUCell": "rzn"}
OPERATOR_WORK = 4e9  # flops that a convolution's operator spectrum may cost before it is declined


@dataclass(frozen=True, slots=True)
class Weight:
    """One weight as a matrix.

    Attributes:
        site: Name of the parameter; a part of a fused one is `"name[part]"`.
        form: `"matrix"`, or `"kernel"` for a convolution's kernel flattened to
            `[out, in * taps]`, or `"operator"` for the whole periodic convolution.
        matrix: The matrix; for an operator its diagonal blocks `[blocks, out, in]`.
        shape: Of the linear map, `(rows, cols)`.
        how: What an operator was taken on, in words.
    """

    site: str
    form: str
    matrix: Float[Tensor, "out in"] | Complex[Tensor, "blocks out in"]
    shape: tuple[int, int]
    how: str = ""

    def spectrum(self) -> Spectrum:
        """Its singular values: of the matrix, or of all the blocks of the operator together."""
        return next(weight_spectra([self]))

    def _operator_spectrum(self) -> Spectrum:
        sigma = torch.linalg.svdvals(self.matrix).flatten().sort(descending=True).values.cpu()
        slack = 8 * max(self.matrix.shape[1:]) * 2.0**-52 * float(sigma[0])
        low, high = (sigma - slack).clamp(min=0), sigma + slack
        return Spectrum(sigma, self.shape, f"fft({self.how})", low, high)


def weight_spectra(many: Sequence[Weight]) -> Iterator[Spectrum]:
    """The singular values of each weight; matrices are solved together, which is faster."""
    matrices = iter(spectra([w.matrix for w in many if w.form != "operator"]))
    for weight in many:
        yield weight._operator_spectrum() if weight.form == "operator" else next(matrices)


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
        for part, tensor in _tensors(module):
            if tensor.ndim >= 2 and tensor.is_floating_point() and id(tensor) not in seen:
                seen[id(tensor)] = tensor
                yield from _parts(module, ".".join(filter(None, (name, part))), plain(tensor))
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
    grid = periodic_grid(module, size)
    rows, cols = module.weight.shape[0] // module.groups, module.weight.shape[1]
    blocks = torch.Size(grid).numel() * module.groups
    if 8.0 * blocks * rows * cols * min(rows, cols) > OPERATOR_WORK:
        return None
    matrix = symbol(module, grid=grid)
    matrix = matrix.mH if transposed(module) else matrix
    count, out, inner = matrix.shape
    words = f"periodic {'x'.join(map(str, grid))} grid"
    return Weight(site, "operator", matrix, (count * out, count * inner), words)


def _tensors(module: nn.Module) -> Iterator[tuple[str, Tensor]]:
    """A layer's own tensors by attribute, as it applies them."""
    if isinstance(module, nn.MultiheadAttention | nn.RNNBase):
        yield from module.named_parameters()
        return
    parametrised = getattr(module, "parametrizations", None)
    if isinstance(parametrised, nn.ModuleDict):
        yield from ((key, getattr(module, key)) for key in parametrised)
    yield from module.named_parameters(recurse=False)


def _parts(module: nn.Module, site: str, tensor: Tensor) -> Iterator[Weight]:
    if isinstance(module, _ConvNd):
        yield _weight(site, "kernel", _kernel(module, tensor))
        return
    names = _fused(module, site.rsplit(".", 1)[-1])
    if names:
        for name, part in zip(names, tensor.chunk(len(names)), strict=True):
            yield _weight(f"{site}[{name}]", "matrix", part)
        return
    yield _weight(site, "matrix", as_matrix(tensor))


def _fused(module: nn.Module, parameter: str) -> str:
    """One letter for each of the matrices that a parameter stacks; none if it is one matrix."""
    if isinstance(module, nn.MultiheadAttention):
        return "qkv" if parameter == "in_proj_weight" else ""
    kind = module.mode if isinstance(module, nn.RNNBase) else type(module).__name__
    return GATES.get(kind, "") if parameter.startswith(("weight_ih", "weight_hh")) else ""


def _kernel(module: _ConvNd, tensor: Tensor) -> Tensor:
    """`[out, in * taps]` for both kinds; groups are stacked, as the kernel is stored."""
    if not transposed(module):
        return as_matrix(tensor)
    by_group = tensor.unflatten(0, (module.groups, -1)).transpose(1, 2)  # [g, out/g, in/g, *taps]
    return by_group.flatten(0, 1).flatten(1)


def _weight(site: str, form: str, matrix: Tensor) -> Weight:
    return Weight(site, form, matrix, (matrix.shape[0], matrix.shape[1]))
