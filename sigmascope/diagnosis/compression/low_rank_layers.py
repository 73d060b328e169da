"""Layers as two thinner ones, along the principal directions of what they write."""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float64
from torch import Tensor, nn

from sigmascope.probes import Subject
from sigmascope.probes.execution import Call, duplicate, module_name

CONVOLUTIONS = (nn.Conv1d, nn.Conv2d, nn.Conv3d)
Plain = nn.Linear | nn.Conv1d | nn.Conv2d | nn.Conv3d


@dataclass(frozen=True, slots=True, eq=False)
class Directions:
    """A layer that can be truncated: the principal directions of what it writes.

    Attributes:
        site: Its name.
        module: The layer.
        mean: Of what it writes; zero where it has no bias to keep it.
        directions: Orthonormal, most important first.
        energies: Sum of squares along each.
    """

    site: str
    module: Plain
    mean: Float64[Tensor, " out"]
    directions: Float64[Tensor, "out k"]
    energies: Float64[Tensor, " k"]

    def error(self, rank: int) -> float:
        """Relative size of what the directions after the first lose."""
        total = float(self.energies.sum())
        return math.sqrt(float(self.energies[rank:].sum()) / total) if total > 0 else 0.0

    def rank_for(self, threshold: float) -> int:
        """The least rank whose error is at most that."""
        ranks = range(1, len(self.energies) + 1)
        return next(r for r in ranks if self.error(r) <= threshold or r == ranks[-1])

    @property
    def own(self) -> int:
        """Parameters of the layer."""
        return sum(p.numel() for p in self.module.parameters())

    def parameters(self, rank: int) -> int:
        """Of the two layers of that rank that take its place."""
        weight = self.module.weight
        bias = 0 if self.module.bias is None else len(weight)
        return rank * (weight[0].numel() + len(weight)) + bias


def directions_of(subject: Subject) -> tuple[Directions, ...]:
    """Layers that are called once, whose weight is a plain parameter of their own."""
    names = Counter(module_name(c.site) for c in subject.calls)
    owners = Counter(id(p) for m in subject.model.modules() for p in m.parameters(recurse=False))
    found: list[Directions] = []
    for one in subject.calls:
        module = one.module
        if type(module) not in (nn.Linear, *CONVOLUTIONS):  # a subclass may do something else
            continue
        assert isinstance(module, Plain)
        if names[module_name(one.site)] != 1 or "weight" not in module._parameters:
            continue
        if owners[id(module.weight)] != 1 or getattr(module, "groups", 1) != 1:
            continue
        rows = _rows(module, one.output)
        if bool(rows.isfinite().all()) and len(rows) > 1:
            mean = rows.mean(0) * float(module.bias is not None)
            found.append(Directions(one.site, module, mean, *_principal(module, rows - mean)))
    return tuple(found)


def _principal(module: Plain, rest: Tensor) -> tuple[Tensor, Tensor]:
    """Principal directions of rows, and the energy along each; in the range of the weight."""
    weight = module.weight.detach().double().cpu().flatten(1)
    within = None
    if weight.shape[0] > weight.shape[1]:  # a head of many outputs: no matrix of their square
        within = torch.linalg.qr(weight)[0]
        rest = rest @ within
    if len(rest) < rest.shape[1]:
        _, s, axes = torch.linalg.svd(rest, full_matrices=False)
        directions, energies = axes.mT, s.square()
    else:
        energies, directions = torch.linalg.eigh(rest.mT @ rest)
        directions, energies = directions.flip(1), energies.flip(0).clamp(min=0)
    return directions if within is None else within @ directions, energies


def _rows(module: Plain, output: Tensor) -> Float64[Tensor, "n out"]:
    """What a layer writes, a row a sample and place."""
    channels = -1 if isinstance(module, nn.Linear) else 1 - module.weight.ndim
    last = output.movedim(channels, -1)
    return last.detach().reshape(-1, last.shape[-1]).double().cpu()


def _parts(layer: Directions, rank: int) -> tuple[Tensor, Tensor, Tensor | None]:
    """`Uᵀ W`, `U`, and the bias that keeps the mean."""
    U = layer.directions[:, :rank]
    weight = layer.module.weight.detach()
    flat = weight.double().cpu().flatten(1)
    bias = layer.module.bias
    kept = None
    if bias is not None:  # what is lost of the mean goes into the bias
        b = bias.detach().double().cpu()
        kept = U @ (U.mT @ b) + layer.mean - U @ (U.mT @ layer.mean)
        kept = kept.to(bias)
    return (U.mT @ flat).reshape(rank, *weight.shape[1:]).to(weight), U.to(weight), kept


def truncated(
    model: nn.Module, layers: Sequence[Directions], ranks: Mapping[str, int]
) -> nn.Module:
    """A copy with truncated weights of the same shape."""
    copied = duplicate(model)
    for layer in layers:
        if layer.site in ranks:
            module = copied.get_submodule(module_name(layer.site))
            assert isinstance(module, Plain)
            inner, outer, bias = _parts(layer, ranks[layer.site])
            with torch.no_grad():
                module.weight.copy_((outer @ inner.flatten(1)).reshape(module.weight.shape))
                if module.bias is not None and bias is not None:
                    module.bias.copy_(bias)
    return copied


def factored(model: nn.Module, layers: Sequence[Directions], ranks: Mapping[str, int]) -> nn.Module:
    """A copy in which truncated layers are two thinner ones."""
    copied = duplicate(model)
    for layer in layers:
        if layer.site in ranks:
            parent, _, name = module_name(layer.site).rpartition(".")
            old = copied.get_submodule(module_name(layer.site))
            setattr(copied.get_submodule(parent), name, _pair(layer, old, ranks[layer.site]))
    return copied


def _pair(layer: Directions, old: nn.Module, rank: int) -> nn.Sequential:
    inner, outer, bias = _parts(layer, rank)
    like: dict[str, Any] = {"device": outer.device, "dtype": outer.dtype}
    assert isinstance(old, Plain)
    biased = bias is not None
    made: Any = nn.utils.skip_init  # no numbers are drawn: what is built is overwritten
    if isinstance(old, nn.Linear):
        first: Plain = made(nn.Linear, old.in_features, rank, bias=False, **like)
        second: Plain = made(nn.Linear, rank, old.out_features, bias=biased, **like)
    else:
        kind: Any = type(old)  # the three kinds differ in nothing that is asked here
        steps = old.kernel_size, old.stride, old.padding, old.dilation
        padded = {"bias": False, "padding_mode": old.padding_mode}
        first = made(kind, old.in_channels, rank, *steps, **padded, **like)
        second = made(kind, rank, old.out_channels, 1, bias=biased, **like)
    with torch.no_grad():
        first.weight.copy_(inner)
        second.weight.copy_(outer.reshape(second.weight.shape))
        if bias is not None and second.bias is not None:
            second.bias.copy_(bias)
    return nn.Sequential(first, second).train(old.training)


def loss_on(layer: Directions, rank: int, call: Call) -> float:
    """Relative size of what a layer loses on the samples of another call."""
    rows = _rows(layer.module, call.output)
    rest = rows - layer.mean
    U = layer.directions[:, :rank]
    lost = rest - rest @ U @ U.mT
    total = float(rest.square().sum())
    return math.sqrt(float(lost.square().sum()) / total) if total > 0 else 0.0
