"""Scaling residual branches to the depth."""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar, final

from torch import nn

from sigmascope.diagnosis.remedies import Inapplicable, Remedy
from sigmascope.networks import Block, ResidualBlock
from sigmascope.probes import Batch


@final
@dataclass(frozen=True, slots=True)
class RescaleResidual(Remedy):
    """Give every residual branch the strength `c / √depth`.

    Products of `I + gamma W` lose their second direction at a rate of about `gamma²` per layer, so
    that this keeps it for any depth, and `1 / depth` would be weaker than needed. Blocks of
    `networks.mlp` have a `gamma`; branches of `networks.resnet` are scaled by their last weight,
    or by the last normaliser's.

    Attributes:
        c: Strength of all branches together.
    """

    name: ClassVar[str] = "rescale-residual"
    cures: ClassVar[tuple[str, ...]] = ("rank-collapse", "exploding-signal", "exploding-adjoints")
    says: ClassVar[str] = "Scale every residual branch by one over the root of their number."
    source: ClassVar[str] = "Daneshmand et al. 2020, Lemma 3, for small gamma"

    c: float = 1.0

    def change(self, model: nn.Module, batches: list[Batch]) -> None:
        blocks = [m for m in model.modules() if isinstance(m, Block) and m.gamma is not None]
        branches = [m for m in model.modules() if isinstance(m, ResidualBlock)]
        if not blocks and not branches:
            raise Inapplicable(
                "Rescaling needs residual blocks whose branches can be told, those of "
                "`networks.mlp` and `networks.resnet`, got none. In other models, multiply the "
                "branch by 1/√depth in the code."
            )
        gamma = self.c / math.sqrt(len(blocks) + len(branches))
        for block in blocks:
            block.gamma = gamma
        for branch in branches:
            scale = list(_scales(branch.second))[-1]
            for parameter in scale.parameters(recurse=False):
                parameter.data.mul_(gamma)


def _scales(block: nn.Module) -> Iterator[nn.Module]:
    """Parts of a block that scale what it writes: a weight, or the normaliser after it."""
    for part in block.children():
        if next(part.parameters(), None) is not None:
            yield part
