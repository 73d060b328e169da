"""Scaling initial weights and inputs by what they do to the data."""

from dataclasses import dataclass, field
from typing import ClassVar, final

import torch
from torch import Tensor, nn
from torch.nn.modules.conv import _ConvNd

from sigmascope.core.records import Kind
from sigmascope.diagnosis.remedies.base import (
    Around,
    Inapplicable,
    Remedy,
    calls,
    hooked,
    plain_layers,
    sharing,
)
from sigmascope.diagnosis.rules.data import OFFSET_INPUTS, UNSCALED_INPUTS
from sigmascope.diagnosis.rules.gradients import EXPLODING_ADJOINTS, VANISHING_ADJOINTS
from sigmascope.diagnosis.rules.representations import (
    DEAD_UNITS,
    DENORMAL_VALUES,
    EXPLODING_SIGNAL,
    LOUD_OUTPUT,
    RANK_COLLAPSE,
    SATURATED_UNITS,
    SIGMOID_STACK,
    VANISHING_SIGNAL,
)
from sigmascope.diagnosis.rules.theorems import ILL_CONDITIONED_LAYER
from sigmascope.diagnosis.rules.weights import (
    ASYMMETRIC_WEIGHTS,
    EQUAL_UNITS,
    WEIGHT_SCALE,
    ZERO_WEIGHTS,
)
from sigmascope.models.layers import module_name
from sigmascope.models.samples import Batch

FLOOR = 1e-2  # of the spread over all inputs: a feature that hardly varies is not blown up
QUIET = 0.1  # spread of the outputs that a loss takes for nearly none
SLACK = 1e-3  # by which outputs that were quieted may miss it, for rounding
STANDARD = (0.5, 2.0)  # sizes and spreads that are left alone


@final
@dataclass(frozen=True, slots=True)
class UnitScale(Remedy):
    """Draw weights orthogonal, then scale every layer so that what it writes varies by one.

    Layer by layer in the order of calls, on the first batch; biases become zero. Recurrent and
    attention modules get orthogonal blocks of gain one, and are not scaled, nor is a weight that
    two layers have in common: what is right for one is not for the other.

    Attributes:
        generator: Source of the weights; one with seed 0 if not given.
    """

    name: ClassVar[str] = "unit-scale"
    cures: ClassVar[tuple[Kind, ...]] = (
        WEIGHT_SCALE,
        ZERO_WEIGHTS,
        EQUAL_UNITS,
        VANISHING_SIGNAL,
        EXPLODING_SIGNAL,
        LOUD_OUTPUT,
        SATURATED_UNITS,
        DEAD_UNITS,
        ASYMMETRIC_WEIGHTS,
        DENORMAL_VALUES,
        RANK_COLLAPSE,
        VANISHING_ADJOINTS,
        EXPLODING_ADJOINTS,
        SIGMOID_STACK,
    )
    says: ClassVar[str] = (
        "Draw orthogonal weights and scale each layer so that its outputs vary by one."
    )
    unless: ClassVar[str] = "there is no plain weight"
    source: ClassVar[str] = "Mishkin & Matas 2016, Algorithm 1; Saxe et al. 2014"

    generator: torch.Generator | None = field(default=None, repr=False)

    def change(self, model: nn.Module, batches: list[Batch]) -> None:
        generator = self.generator or torch.Generator().manual_seed(0)
        made = calls(model, batches[0])
        for module in dict.fromkeys(c.module for c in made):
            for name, p in module.named_parameters(recurse=False):
                if p.ndim < 2:
                    if "bias" in name:
                        p.data.zero_()
                    continue
                drawn = torch.empty(p.shape, dtype=torch.float64)
                rows, columns = len(drawn), drawn[0].numel()
                blocks = drawn[None]
                if columns > 1 and rows % columns == 0 and rows > columns:  # gates, heads: stacked
                    blocks = drawn.view(rows // columns, columns, *drawn.shape[1:])
                for block in blocks:
                    nn.init.orthogonal_(block, generator=generator)
                p.data.copy_(drawn)
        done: set[nn.Module] = set()

        def scale(module: nn.Module, _inputs: object, output: Tensor) -> Tensor:
            if module in done:
                return output
            done.add(module)
            spread = _spread(output)
            if spread > 0:
                module.get_parameter("weight").data.div_(spread)
                return output / spread
            return output

        plain = [m for m in plain_layers(made) if not sharing(model, m)]
        if not plain:
            raise Inapplicable(
                "Scaling needs linear or convolution layers with plain weights of their own, got "
                "none. Take off reparametrisations first."
            )
        hooked(model, batches[0], plain, scale)


@final
@dataclass(frozen=True, slots=True)
class QuietOutput(Remedy):
    """Scale the last layer down so that the first outputs are nearly equal."""

    name: ClassVar[str] = "quiet-output"
    cures: ClassVar[tuple[Kind, ...]] = (LOUD_OUTPUT,)
    says: ClassVar[str] = "Scale the last layer down so that the first outputs hardly differ."
    unless: ClassVar[str] = "the outputs vary by less than 0.1"
    source: ClassVar[str] = "Zhang et al. 2019, Sec. 2 (zero-initialised classification layer)"

    def change(self, model: nn.Module, batches: list[Batch]) -> None:
        last = [c for c in calls(model, batches[0]) if isinstance(c.module, nn.Linear | _ConvNd)]
        spread = _spread(last[-1].output) if last else 0.0
        if spread <= QUIET * (1 + SLACK) or not plain_layers(last[-1:]):
            raise Inapplicable(
                "Quieting needs a last linear or convolution layer whose outputs vary by more than "
                f"{QUIET:g}, got {spread:.2g}."
            )
        layer = last[-1].module
        if other := sharing(model, layer):
            raise Inapplicable(
                f"The last layer has its weight in common with {other}, which would become as "
                "small. Multiply the outputs by a small number in `forward` instead."
            )
        layer.get_parameter("weight").data.mul_(QUIET / spread)
        if layer.bias is not None:
            layer.get_parameter("bias").data.zero_()


class Standardised(Around):
    """A layer that reads its input less a mean, over a spread, both constants."""

    def __init__(self, layer: nn.Module, mean: Tensor, spread: Tensor) -> None:
        super().__init__(layer)
        self.register_buffer("mean", mean)
        self.register_buffer("spread", spread)

    def forward(self, input: Tensor, *rest: object, **named: object) -> object:
        """What the layer makes of the standardised input."""
        mean, spread = self.get_buffer("mean"), self.get_buffer("spread")
        return self.layer((input - mean) / spread, *rest, **named)


@final
@dataclass(frozen=True, slots=True)
class StandardiseInputs(Remedy):
    """Put a standardisation before the first layer, with the statistics of the batches.

    Every feature (channel, for images) is centred and divided by its standard deviation, which is
    kept above a hundredth of the spread over all features.
    """

    name: ClassVar[str] = "standardise-inputs"
    cures: ClassVar[tuple[Kind, ...]] = (
        UNSCALED_INPUTS,
        OFFSET_INPUTS,
        VANISHING_SIGNAL,
        EXPLODING_SIGNAL,
        ILL_CONDITIONED_LAYER,
        SATURATED_UNITS,
        LOUD_OUTPUT,
    )
    says: ClassVar[str] = "Standardise what the first layer reads."
    unless: ClassVar[str] = "inputs are of unit scale; the first layer reads tokens"
    source: ClassVar[str] = "LeCun et al. 1998, Sec. 4.3"
    rebuilds: ClassVar[bool] = True

    def change(self, model: nn.Module, batches: list[Batch]) -> None:
        made = calls(model, batches[0])
        first = made[0]
        inside = isinstance(first.module, nn.Linear | _ConvNd | nn.RNNBase)
        if not inside or not first.input.is_floating_point() or not first.site:
            raise Inapplicable(
                "Standardising needs a first layer inside the model that reads numbers, linear, "
                f"convolution or recurrent; got {type(first.module).__name__}. Standardise the "
                "data instead."
            )
        if sum(c.module is first.module for c in made) > 1:
            raise Inapplicable(
                "Standardising needs a first layer that reads the inputs alone, but "
                f"{first.site} is called again in the same pass. Standardise the data instead."
            )
        x = first.input
        channels = 1 if isinstance(first.module, _ConvNd) else x.ndim - 1
        read = torch.cat([calls(model, b)[0].input.movedim(channels, -1).flatten(0, -2)
                          for b in batches]).double()  # fmt: skip
        mean, spread = read.mean(0), read.std(0, correction=0)
        whole = float(spread.square().mean().sqrt())
        size = float(read.square().mean().sqrt())
        low, high = STANDARD
        if not whole > 0:
            raise Inapplicable("Standardising needs inputs that differ, got a batch of equal ones.")
        if low < whole < high and low < size < high:
            raise Inapplicable(
                f"The inputs are of unit scale already (root mean square {size:.2g}, spread "
                f"{whole:.2g})."
            )
        shape = [-1, *[1] * (x.ndim - 1 - channels)]
        spread = spread.clamp(min=FLOOR * whole)
        parent, _, name = module_name(first.site).rpartition(".")
        new = Standardised(first.module, mean.view(shape).to(x), spread.view(shape).to(x))
        new.training = first.module.training
        setattr(model.get_submodule(parent), name, new)


def _spread(output: Tensor) -> float:
    """Root mean square deviation from the mean over samples and positions."""
    dims = [d for d in range(output.ndim) if d != (1 if output.ndim > 3 else output.ndim - 1)]
    value = float((output.double() - output.double().mean(dims, keepdim=True)).square().mean())
    return value**0.5 if value < float("inf") else 0.0
