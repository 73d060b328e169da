"""What it costs that the Jacobian differs between two inputs."""

from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise
from typing import ClassVar, final

from jaxtyping import Float64
from torch import Tensor

from sigmascope.linalg.spectra import spectrum
from sigmascope.probes.structure import Point, Stack
from sigmascope.records import Assumption, Estimate, Sense, entrywise, largest
from sigmascope.theory.jacot2023.constructions.linear_maps import EPS, SOURCE
from sigmascope.theory.jacot2023.facts import (
    OfStacks,
    points,
    schatten_cost,
    singular_values,
    spectral_norm,
    weight_norm,
)
from sigmascope.theory.jacot2023.tangents import ntk_norm


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

    def both(self, point: Point) -> tuple[Estimate, Estimate]:
        assert self.other is not None
        return weight_norm(point.stack), _variation(point, self.other, _constant(point, self.other))


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
    C = _constant(first, second) if constant is None else Estimate.exactly(constant)
    return _variation(first, second, C).value


def _variation(first: Point, second: Point, C: Estimate) -> Estimate:
    depth = first.stack.depth
    costs = [schatten_cost(singular_values(p.spectrum), depth) for p in (first, second)]
    s = spectrum(first.jacobian - second.jacobian, route="exact")
    gap = sum(p.errors.jacobian + EPS * float(p.jacobian.norm()) for p in (first, second))
    ends = (s.low - gap).clamp_min(0), s.high + gap
    apart = sum(entrywise(s.sigma, *ends, how=s.how), Estimate.exactly(0.0))
    return (costs[0] + costs[1]) / 2 + apart / C**2


def _constant(first: Point, second: Point) -> Estimate:
    """C of the two chains: the largest norm of a derivative of or by a layer, or 1."""
    norms = [Estimate.exactly(1.0)]
    for point in (first, second):
        errors = point.errors
        for chain, gap in zip(_chains(point), (*errors.chains, *errors.reads), strict=True):
            norms.append(spectral_norm(chain, gap))
    return largest(*norms)


def _chains(point: Point) -> Iterator[Tensor]:
    """`∂z_l/∂x`, then `∂f/∂α_{l-1}`: the derivatives that end or begin before an activation."""
    weights = point.stack.weights
    yield from (W @ F for W, F in zip(weights, point.forwards, strict=True))
    yield from (B @ W for W, B in zip(weights, point.backwards, strict=True))


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
        units = list(zip(self.point.preactivations, self.other.preactivations, strict=True))[:-1]
        same = all(bool(((a > 0) == (b > 0)).all()) for a, b in units)
        decided = self.point.errors.decided and self.other.errors.decided
        apart = bool((self.point.x != self.other.x).any())
        met = same and apart
        said = "no unit changes its side between the inputs"
        return (Assumption(said, met if decided or not apart else None),)

    def both(self, point: Point) -> tuple[Estimate, Estimate]:
        assert self.other is not None
        step, depth = self.other.x - point.x, point.stack.depth
        gap = EPS * float(point.x.norm() + self.other.x.norm())
        size = Estimate.sum_of_squares(step).sqrt() + Estimate.within(0.0, gap)
        moved = point.jacobian @ step
        spread = point.errors.jacobian + (len(step) + 2) * EPS * float(point.jacobian.norm())
        along = Estimate.sum_of_squares(moved).sqrt()
        along = along + Estimate.within(
            0.0,
            spread * size.high + gap * spectral_norm(point.jacobian, point.errors.jacobian).high,
        )
        slope = (along / size).at_least(0.0)
        limit = depth / 4 * size**2 * slope ** (2 - Fraction(2, depth))
        return largest(*(ntk_norm(p) for p in (point, self.other))), limit
