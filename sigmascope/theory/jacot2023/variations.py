"""What it costs that the Jacobian differs between two inputs."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import ClassVar, final

import torch
from jaxtyping import Float64
from torch import Tensor

from sigmascope.linalg import Estimate
from sigmascope.probes import Point, Stack
from sigmascope.theory.bounds import Assumption, Sense
from sigmascope.theory.jacot2023.facts import (
    OfStacks,
    points,
    rounded,
    singular_values,
)
from sigmascope.theory.jacot2023.linear import SOURCE, schatten_cost
from sigmascope.theory.jacot2023.tangents import ntk_kernel


@dataclass(frozen=True, slots=True)
class _OfPairs(OfStacks):
    """A theorem about two inputs.

    Attributes:
        other: The network at the second input.
    """

    relu_only: ClassVar[bool] = True

    other: Point | None = None

    @classmethod
    def on(cls, stack: Stack, rows: Float64[Tensor, "n d"]) -> Iterator["_OfPairs"]:
        """The theorem on a stack, for inputs that follow each other."""
        for (a, p), (b, q) in pairwise(points(stack, rows)):
            yield cls(f"{a} and {b}", p, "", q)


@final
@dataclass(frozen=True, slots=True)
class JacobianVariation(_OfPairs):
    """The norm pays for the Jacobians at two inputs, and for their difference."""

    name: ClassVar[str] = "jacobian-variation"
    source: ClassVar[str] = f"{SOURCE}, Prop. 13"
    statement: ClassVar[str] = (
        "Σ ‖W_l‖² ≥ (L ‖Jf(x)‖_{2/L}^{2/L} + L ‖Jf(y)‖_{2/L}^{2/L}) / 2 + C^{-2} ‖Jf(x) - Jf(y)‖_*"
    )
    sense: ClassVar[Sense] = "at least"

    def left(self, point: Point) -> Estimate:
        return rounded(point.stack.weight_norm, point.stack.weight_norm)

    def right(self, point: Point) -> Estimate:
        assert self.other is not None
        return rounded(jacobian_variation_bound(point, self.other), point.stack.weight_norm)


def jacobian_variation_bound(
    first: Point, second: Point, *, constant: float | None = None
) -> float:
    """What the norm of a ReLU stack is at least, from the Jacobians at two inputs.

    Args:
        first: The stack at one input.
        second: At another.
        constant: C, at least 1: a bound on the norms of the derivatives of and by every layer; of
            the two chains if not given.

    Source:
        Jacot 2023, Prop. 13.
    """
    depth = first.stack.depth
    chains = [J for p in (first, second) for J in _chains(p)]
    C = constant or max(1.0, *(float(torch.linalg.matrix_norm(J, 2)) for J in chains))
    costs = [schatten_cost(singular_values(p.jacobian), depth) for p in (first, second)]
    apart = float(torch.linalg.matrix_norm(first.jacobian - second.jacobian, "nuc"))
    return sum(costs) / 2 + apart / C**2


def _chains(point: Point) -> Iterator[Tensor]:
    """`∂z_l/∂x` and `∂f/∂α_{l-1}`: all derivatives that end or begin before an activation."""
    layers = zip(point.stack.weights, point.forwards, point.backwards, strict=True)
    for W, forward, backward in layers:
        yield W @ forward
        yield backward @ W


@final
@dataclass(frozen=True, slots=True)
class TangentOnSegments(_OfPairs):
    """Where no unit changes between two inputs, the tangent kernel is large at one of them."""

    name: ClassVar[str] = "ntk-on-segments"
    source: ClassVar[str] = f"{SOURCE}, Prop. 9 (2)"
    statement: ClassVar[str] = (
        "max(‖Θ(x,x)‖, ‖Θ(y,y)‖) ≥ (L/4) ‖x-y‖² ‖Jf u‖^{2-2/L}, u = (y-x)/‖y-x‖"
    )
    sense: ClassVar[Sense] = "at least"

    def more(self) -> tuple[Assumption, ...]:
        assert self.point is not None
        assert self.other is not None
        same = all(
            torch.equal(a, b) for a, b in zip(self.point.slopes, self.other.slopes, strict=True)
        )
        apart = bool((self.point.x != self.other.x).any())
        return (Assumption("no unit changes its side between the inputs", same and apart),)

    def left(self, point: Point) -> Estimate:
        assert self.other is not None
        tops = [float(torch.linalg.eigvalsh(ntk_kernel(p))[-1]) for p in (point, self.other)]
        return rounded(max(tops), max(tops))

    def right(self, point: Point) -> Estimate:
        assert self.other is not None
        step, depth = self.other.x - point.x, point.stack.depth
        size = float(step.norm())
        along = float((point.jacobian @ step).norm()) / size if size > 0 else 0.0
        value = depth / 4 * size**2 * along ** (2 - 2 / depth)
        return rounded(value, value)
