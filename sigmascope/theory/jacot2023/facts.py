"""A stack at one of the samples, as the theorems of this paper need it."""

import math
from abc import abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar, final

import torch
from jaxtyping import Float64
from torch import Tensor

from sigmascope.linalg import Estimate
from sigmascope.probes import Point, Stack, Subject
from sigmascope.theory.bounds import Assumption, OfModels
from sigmascope.theory.jacot2023.linear import EPS

POINTS = 8  # samples at which a theorem is checked
SMALL = 1e-6  # a singular value of the Jacobian below which a direction is not counted


def points(stack: Stack, rows: Float64[Tensor, "n d"]) -> Iterator[tuple[str, Point]]:
    """The first samples of a batch, by name."""
    for i, x in enumerate(rows[:POINTS]):
        yield f"sample {i}", stack.at(x)


def singular_values(J: Tensor) -> Tensor:
    """Those of a Jacobian that are large enough to be counted."""
    s = torch.linalg.svdvals(J)
    return s[s > SMALL]


def log_cost(s: Tensor, depth: int) -> float:
    """`k L + 2 Σ log s`."""
    return len(s) * depth + 2 * float(s.log().sum())


def least_norm(s: Tensor, depth: int) -> float:
    """`max_k k L + 2 log |A|_k`: what `Σ ‖W_l‖_F²` is at least, for positive singular values."""
    return float((2 * s.log() + depth).cumsum(0).amax())


def rounded(value: float, size: float) -> Estimate:
    """A number whose terms were this large."""
    gap = 1e4 * EPS * max(abs(value), size)
    return Estimate(value, value - gap, value + gap, "exact")


@dataclass(frozen=True, slots=True)
class OfStacks(OfModels):
    """A theorem about a plain stack; it declines on other networks and says why.

    Attributes:
        site: The sample.
        point: The network there; None where it is no stack.
        why: Why it is none.
    """

    views: ClassVar[tuple[str, ...]] = ("bottleneck",)
    relu_only: ClassVar[bool] = False

    site: str
    point: Point | None
    why: str = ""

    def assumptions(self) -> tuple[Assumption, ...]:
        if self.point is None:
            return (Assumption(f"a plain stack of layers, but {self.why}", False),)
        slope = self.point.stack.slope
        kind = "the activation is a ReLU" if self.relu_only else "slopes lie within [-1, 1]"
        good = slope == 0 if self.relu_only else abs(slope) <= 1
        return (Assumption(kind, good), *self.more())

    def more(self) -> tuple[Assumption, ...]:
        """Further hypotheses."""
        return ()

    def measured(self) -> Estimate:
        return _nothing() if self.point is None else self.left(self.point)

    def limit(self) -> Estimate:
        return _nothing() if self.point is None else self.right(self.point)

    @abstractmethod
    def left(self, point: Point) -> Estimate:
        """The side that the theorem bounds."""

    @abstractmethod
    def right(self, point: Point) -> Estimate:
        """The side that bounds it."""

    @classmethod
    def on(cls, stack: Stack, rows: Float64[Tensor, "n d"]) -> Iterator["OfStacks"]:
        """The theorem on a stack, for some inputs."""
        for site, point in points(stack, rows):
            if len(singular_values(point.jacobian)):
                yield cls(site, point)

    @classmethod
    @final
    def facts(cls, subject: Subject) -> Iterator["OfStacks"]:
        stack = subject.stack
        if isinstance(stack, str):
            yield cls("network", None, stack)
            return
        assert isinstance(subject.batch, Tensor)  # else it would be no stack
        yield from cls.on(stack, subject.batch.flatten(1).double().cpu())


def _nothing() -> Estimate:
    return Estimate(0.0, -math.inf, math.inf, "not measured")
