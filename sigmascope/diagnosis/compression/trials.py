"""Ranks tried on a network: what the output becomes with layers of lower rank."""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import final

import torch
from torch import Tensor, nn

from sigmascope.diagnosis.compression.low_rank_layers import (
    Directions,
    factored,
    loss_on,
    truncated,
)
from sigmascope.gate import Refusal
from sigmascope.probes import Subject
from sigmascope.probes.execution import called, still
from sigmascope.probes.samples import Batch, as_tensor
from sigmascope.records import Estimate

ROUNDS = 12  # of halving the interval of the threshold, on a logarithmic scale


@final
@dataclass(frozen=True, slots=True)
class Truncation:
    """A layer at a lower rank.

    Attributes:
        site: The layer.
        rank: How many directions of what it writes are kept.
        full: How many there are.
        error: Size of what is lost of what the layer writes, next to its variation (to all of it
            where the layer has no bias), exact on the samples that the directions come from.
        elsewhere: The same on other samples.
        change: How much the network's output changes on other samples if this layer alone is
            truncated, next to the variation of the output.
        parameters: Of the layer, before and after.
    """

    site: str
    rank: int
    full: int
    error: Estimate
    elsewhere: Estimate
    change: Estimate
    parameters: tuple[int, int]


@dataclass(frozen=True)
class Trial:
    """A model with some of its layers truncated, on samples that their directions are not from."""

    model: nn.Module
    layers: tuple[Directions, ...]
    other: Subject

    def ranks(self, threshold: float) -> dict[str, int]:
        """Ranks whose loss is below the threshold, of layers that get smaller by it."""
        found = {x: x.rank_for(threshold) for x in self.layers}
        return {x.site: rank for x, rank in found.items() if x.parameters(rank) < x.own}

    @cached_property
    def before(self) -> Tensor:
        """The output as it is."""
        return self.other.output.double()

    @cached_property
    def spread(self) -> float:
        """How much that varies between samples."""
        found = float((self.before - self.before.mean(0)).square().mean().sqrt())
        if found == 0:
            raise Refusal("The output must vary between samples, got one value. Pass others.")
        return found

    def output(self, ranks: Mapping[str, int]) -> Tensor:
        """With some layers truncated."""
        return _output(truncated(self.model, self.layers, ranks), self.other.batch)

    def distance(self, output: Tensor) -> float:
        """From the output as it is, next to how much that varies."""
        return float((output - self.before).square().mean().sqrt()) / self.spread

    def truncation(self, layer: Directions, rank: int) -> Truncation:
        """One layer, with what it loses and what that alone changes."""
        call = next(c for c in self.other.calls if c.site == layer.site)
        return Truncation(
            layer.site,
            rank,
            min(layer.module.weight.flatten(1).shape),
            rounded(layer.error(rank)),
            rounded(loss_on(layer, rank, call)),
            rounded(self.distance(self.output({layer.site: rank}))),
            (layer.own, layer.parameters(rank)),
        )


def replaceable(model: nn.Module, layer: Directions, batch: Batch) -> bool:
    """Whether the model calls this layer, and does not look inside it."""
    try:
        _output(factored(model, [layer], {layer.site: 1}), batch)
    except Refusal:  # some models read `layer.weight`, which two layers do not have
        return False
    return True


def rounded(value: float) -> Estimate:
    """A number known up to the model's own rounding of a mean."""
    return Estimate.rounded(value, ulps=1e8, how="measured")


def largest(changed: Callable[[float], float], tolerance: float) -> float:
    """The largest threshold that keeps the output, to a hundredth; zero if none does."""
    low, high = math.log(1e-8), 0.0
    if changed(1.0) <= tolerance:
        return 1.0
    if changed(math.exp(low)) > tolerance:
        return 0.0
    for _ in range(ROUNDS):
        middle = (low + high) / 2
        low, high = (middle, high) if changed(math.exp(middle)) <= tolerance else (low, middle)
    return math.exp(low)


def _output(model: nn.Module, batch: Batch) -> Tensor:
    with still(model), torch.no_grad():
        return as_tensor(called(model, batch))[0].detach().double()
