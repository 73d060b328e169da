"""A stack at one of the samples, as the theorems of this paper need it.

Everything is computed from float64 copies of the weights, and carries what rounding did to it: the
Jacobian through a running error bound (`models.structure.operations.Errors`), its singular values
by Weyl 1912, what is computed from them by the arithmetic of estimates. The theorems hold for any
number k of the largest singular values, so that only those are counted that rounding cannot have
made.
"""

from abc import abstractmethod
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from typing import ClassVar, final

import torch
from jaxtyping import Float64
from torch import Tensor

from sigmascope.core.records import Assumption, Estimate, Spectrum, entrywise, largest
from sigmascope.linalg.dense import EPS
from sigmascope.models import Subject
from sigmascope.models.structure import Point, Stack
from sigmascope.theory.bounds import ANY, SIZE, OfModels

POINTS = 8  # samples at which a theorem is checked
KNOWN = 0.99  # a singular value counts if its lower end is at least this share of it


def points(stack: Stack, rows: Float64[Tensor, "n d"]) -> Iterator[tuple[str, Point]]:
    """The first samples of a batch, by name."""
    for i, x in enumerate(rows[:POINTS]):
        yield f"sample {i}", stack.at(x)


def singular_values(s: Spectrum) -> tuple[Estimate, ...]:
    """The largest singular values, as many as are known."""
    known = (s.low > 0) & (s.low >= KNOWN * s.sigma)
    count = int(known.long().cumprod(0).sum())
    return entrywise(s.sigma[:count], s.low[:count], s.high[:count], how="exact")


def spectral_norm(A: Float64[Tensor, "m n"], gap: float) -> Estimate:
    """`‖A‖` of a matrix that is known up to one of the norm `gap`."""
    value = float(torch.linalg.matrix_norm(A, 2))
    error = gap + 4 * max(A.shape) * EPS * value
    return Estimate(value, max(value - error, 0.0), value + error, "exact")


def frobenius_norm(A: Tensor, gap: float) -> Estimate:
    """`‖A‖_F` of a tensor that is known up to one of the norm `gap`."""
    return (Estimate.sum_of_squares(A).sqrt() + Estimate.within(0.0, gap)).at_least(0.0)


def weight_norm(stack: Stack) -> Estimate:
    """`Σ ‖W_l‖_F²`."""
    return _summed(stack.sizes)


def parameter_norm(stack: Stack) -> Estimate:
    """`‖θ‖² = Σ ‖W_l‖_F² + ‖b_l‖²`."""
    return weight_norm(stack) + _summed(Estimate.sum_of_squares(b) for b in stack.biases)


def log_volume(s: tuple[Estimate, ...]) -> Estimate:
    """`log |A|_+ = Σ log s`."""
    return _summed(e.log() for e in s)


def schatten_cost(s: tuple[Estimate, ...], depth: int) -> Estimate:
    """`L Σ s^{2/L}`: what a linear map of these singular values costs."""
    return depth * _summed(e ** Fraction(2, depth) for e in s)


def largest_cost(s: tuple[Estimate, ...], depth: int) -> Estimate:
    """`max_k k L + 2 log |A|_k`."""
    logs = [2 * e.log() + depth for e in s]
    return largest(*(_summed(logs[: k + 1]) for k in range(len(logs))))


def least_norm(s: Tensor, depth: int) -> float:
    """`max_k k L + 2 log |A|_k`: what `Σ ‖W_l‖_F²` is at least, for positive singular values."""
    return float((2 * s.log() + depth).cumsum(0).amax())


def _summed(terms: Iterable[Estimate]) -> Estimate:
    return sum(terms, Estimate.exactly(0.0))


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

    def always(self) -> tuple[float, float]:
        return SIZE if self.sense == "at least" else ANY  # every such side is a norm

    @final
    def measured(self) -> Estimate:
        return self.sides()[0]

    @final
    def limit(self) -> Estimate:
        return self.sides()[1]

    @final
    def sides(self) -> tuple[Estimate, Estimate]:
        assert self.point is not None  # else the theorem does not apply
        return self.both(self.point)

    @abstractmethod
    def both(self, point: Point) -> tuple[Estimate, Estimate]:
        """The side that the theorem bounds, and the side that bounds it."""

    @classmethod
    def on(cls, stack: Stack, rows: Float64[Tensor, "n d"]) -> Iterator["OfStacks"]:
        """The theorem on a stack, for some inputs."""
        for site, point in points(stack, rows):
            if singular_values(point.spectrum):
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
