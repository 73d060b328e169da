"""The second correction of a product: Proposition 4, where it can be checked."""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar, final

from jaxtyping import Float64
from torch import Tensor

from sigmascope.linalg import Estimate
from sigmascope.probes import Point, Stack
from sigmascope.theory.bounds import Assumption
from sigmascope.theory.jacot2023.facts import OfStacks, rounded
from sigmascope.theory.jacot2023.linear import SOURCE, corrections, positive


@final
@dataclass(frozen=True, slots=True)
class ProductCorrection(OfStacks):
    """How irregular a product of linear layers is, is at most what its layers are together.

    The square root of the second correction is a distance from isometries, which adds up along a
    composition.
    """

    name: ClassVar[str] = "product-correction"
    source: ClassVar[str] = f"{SOURCE}, Prop. 4 (1), for linear layers of one rank"
    statement: ClassVar[str] = "√R2(W_L ⋯ W_1) ≤ Σ √R2(W_l), R2(A) = 2 Σ log² s_i(A)"

    def more(self) -> tuple[Assumption, ...]:
        assert self.point is not None
        stack = self.point.stack
        ranks = [len(positive(W)) for W in (*stack.weights, self.point.jacobian)]
        said = f"the product has the rank of every layer (ranks {', '.join(map(str, ranks))})"
        return (
            Assumption("the network is linear", stack.slope == 1),
            Assumption(said, len(set(ranks)) == 1),
        )

    def left(self, point: Point) -> Estimate:
        value = _distance(point.jacobian)
        return rounded(value, value)

    def right(self, point: Point) -> Estimate:
        value = sum(_distance(W) for W in point.stack.weights)
        return rounded(value, value)

    @classmethod
    def on(cls, stack: Stack, rows: Float64[Tensor, "n d"]) -> Iterator["ProductCorrection"]:
        """Once: a linear network is the same everywhere."""
        if stack.slope == 1 and len(rows):
            yield cls("network", stack.at(rows[0]))


def _distance(A: Tensor) -> float:
    return math.sqrt(corrections(A)[2])
