"""Scaling residual branches to the depth."""

import math
from dataclasses import dataclass
from typing import ClassVar, final

from torch import nn

from sigmascope import quantities as q
from sigmascope.diagnosis.remedies.base import Inapplicable, Remedy
from sigmascope.diagnosis.remedies.skip_connections import NO_BRANCH, multiply, scaled_branches
from sigmascope.diagnosis.rules.gradients import EXPLODING_ADJOINTS
from sigmascope.diagnosis.rules.representations import EXPLODING_SIGNAL, RANK_COLLAPSE
from sigmascope.diagnosis.rules.weights import STRONG_RESIDUAL
from sigmascope.networks import Block
from sigmascope.probes.samples import Batch
from sigmascope.records import Kind


@final
@dataclass(frozen=True, slots=True)
class RescaleResidual(Remedy):
    """Multiply every residual branch by `c / √depth`.

    Products of `I + gamma W` lose their second direction at a rate of about `gamma²` per layer, so
    that this keeps it for any depth, and `1 / depth` would be weaker than needed. Blocks of
    `networks.mlp` have a `gamma`, which is set to it; other branches are scaled in their last
    weight, or the last normaliser's, whatever their strength was.

    Attributes:
        c: Strength of all branches together.
    """

    name: ClassVar[str] = "rescale-residual"
    cures: ClassVar[tuple[Kind, ...]] = (
        STRONG_RESIDUAL,
        RANK_COLLAPSE,
        EXPLODING_SIGNAL,
        EXPLODING_ADJOINTS,
    )
    says: ClassVar[str] = "Scale every residual branch by one over the root of their number."
    source: ClassVar[str] = "Daneshmand et al. 2020, Lemma 3, for small gamma"
    needs: ClassVar[str] = q.BRANCH_STRENGTH

    c: float = 1.0

    def change(self, model: nn.Module, batches: list[Batch]) -> None:
        blocks = [m for m in model.modules() if isinstance(m, Block) and m.gamma is not None]
        if blocks:
            for block in blocks:
                block.gamma = self.c / math.sqrt(len(blocks))
            return
        found = scaled_branches(model, batches[0])
        if not found:
            raise Inapplicable(NO_BRANCH)
        multiply(model, found, self.c / math.sqrt(len(found)))
