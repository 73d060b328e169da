"""Drawing the initial weights again, or taking out their mean."""

from dataclasses import dataclass, field
from typing import ClassVar, Literal, final

import torch
from torch import Tensor, nn

from sigmascope.core.records import Kind
from sigmascope.diagnosis.remedies.base import Inapplicable, Remedy, calls, plain_layers
from sigmascope.diagnosis.rules.gradients import EXPLODING_ADJOINTS, VANISHING_ADJOINTS
from sigmascope.diagnosis.rules.representations import EXPLODING_SIGNAL, VANISHING_SIGNAL
from sigmascope.diagnosis.rules.weights import ASYMMETRIC_WEIGHTS, SHIFTED
from sigmascope.models import weights
from sigmascope.models.samples import Batch

Scheme = Literal["orthogonal", "he", "xavier"]


@final
@dataclass(frozen=True, slots=True)
class RecentreWeights(Remedy):
    """Subtract from every weight matrix the mean of its entries."""

    name: ClassVar[str] = "recentre-weights"
    cures: ClassVar[tuple[Kind, ...]] = (ASYMMETRIC_WEIGHTS,)
    says: ClassVar[str] = "Subtract from every weight matrix the mean of its entries."
    unless: ClassVar[str] = "no mean shift exceeds 2"
    source: ClassVar[str] = "Daneshmand et al. 2020, Definition 1 and Sec. 5"

    def change(self, model: nn.Module, batches: list[Batch]) -> None:
        largest = max((_shift(w.matrix) for w in weights(model)), default=0.0)
        if largest <= SHIFTED:
            raise Inapplicable(
                "Re-centring needs weights whose mean is large beside their spread, got none: the "
                f"largest mean shift is {largest:.2g}, and above {SHIFTED:g} it sticks out."
            )
        seen = {c.module for c in calls(model, batches[0])}
        for module in seen:
            for parameter in module.parameters(recurse=False):
                if parameter.ndim >= 2 and _shift(parameter.detach().flatten(1)) > SHIFTED:
                    parameter.data.sub_(parameter.data.mean())


@final
@dataclass(frozen=True, slots=True)
class Reinitialise(Remedy):
    """Draw linear and convolution weights again, from a law that keeps the size of the signal.

    Attributes:
        scheme: `"orthogonal"` (with gain √2), `"he"` or `"xavier"`; biases become zero.
        generator: Source of the weights; one with seed 0 if not given.
    """

    name: ClassVar[str] = "reinitialise"
    cures: ClassVar[tuple[Kind, ...]] = (
        VANISHING_SIGNAL,
        EXPLODING_SIGNAL,
        VANISHING_ADJOINTS,
        EXPLODING_ADJOINTS,
        ASYMMETRIC_WEIGHTS,
    )
    says: ClassVar[str] = (
        "Draw the weights again from a law that keeps the size of signals and derivatives."
    )
    unless: ClassVar[str] = "there is no plain weight"
    source: ClassVar[str] = "He et al. 2015, Sec. 2.2; Saxe et al. 2014"

    scheme: Scheme = "orthogonal"
    generator: torch.Generator | None = field(default=None, repr=False)

    def change(self, model: nn.Module, batches: list[Batch]) -> None:
        generator = self.generator or torch.Generator().manual_seed(0)
        found = plain_layers(calls(model, batches[0]))
        if not found:
            raise Inapplicable(
                "Reinitialisation needs linear or convolution layers with plain weights, got none. "
                "Take off reparametrisations first."
            )
        last = found[-1]
        for module in found:
            weight = module.get_parameter("weight")
            drawn = torch.empty(weight.shape, dtype=torch.float64)
            gain = 1.0 if module is last else 2**0.5
            if self.scheme == "orthogonal":
                nn.init.orthogonal_(drawn, gain=gain, generator=generator)
            elif self.scheme == "he":
                nn.init.kaiming_normal_(drawn, nonlinearity="relu", generator=generator)
            else:
                nn.init.xavier_normal_(drawn, gain=gain, generator=generator)
            weight.data.copy_(drawn)
            if module.bias is not None:
                nn.init.zeros_(module.get_parameter("bias"))


def _shift(matrix: Tensor) -> float:
    entries = matrix.double()
    m, n = entries.shape[-2:]
    spread = float(entries.std(correction=0))
    size = abs(float(entries.mean())) * (m * n) ** 0.5
    return size / (spread * (m**0.5 + n**0.5)) if spread > 0 else float("inf")
