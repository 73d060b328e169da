"""Trace and Frobenius norm of symmetric operators, with what is large in them taken out.

The idea: a sampled trace strays by the Frobenius norm of what is sampled, so whatever is known is
summed exactly first, and only the rest is left to chance. Three parts add up: what a Krylov space
holds (the large eigenvalues), what half as many products with normal vectors span of the rest, and
normal vectors less their part in both. The invariant: the three live in spaces at right angles, and
each vector is projected out of the known ones before and after its product, so that nothing is
counted twice and no rounding of a large eigenvalue leaks into the rest.

Source: Hutchinson 1990; Meyer, Musco, Musco & Woodruff 2021, Hutch++.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float64
from torch import Tensor

from sigmascope.linalg.krylov.lanczos import Krylov
from sigmascope.linalg.krylov.operator import Operator
from sigmascope.linalg.krylov.quadratic_forms import Chances
from sigmascope.linalg.krylov.traces import normal_vectors, precision, require_sampling
from sigmascope.linalg.refusals import require_between
from sigmascope.records import Estimate

FEWEST = 4  # samples before their spread is believed
Estimates = tuple[Float64[Tensor, " s"], Float64[Tensor, " s"]]


def symmetric_moments(
    A: Operator,
    *,
    within: Krylov,
    samples: int = 16,
    risk: float = 0.05,
    generator: torch.Generator | None = None,
) -> tuple[Estimate, Estimate]:
    """Trace and Frobenius norm of a symmetric operator of which a Krylov space is known.

    What the space holds is summed exactly, and so is what half as many products with normal
    vectors as there are samples span; only what is left then is sampled.

    Args:
        A: Symmetric.
        within: Its Krylov space.
        samples: Random vectors; with those of the sketch, each costs two products. None is needed
            if the space is whole.
        risk: Chance that an interval misses, each for itself, whatever the eigenvalues are.
        generator: Source of the random vectors.

    Raises:
        ValueError: If `samples` is below 2, or `risk` not in (0, 1).

    Source:
        Hutchinson 1990; Meyer, Musco, Musco & Woodruff 2021 (Hutch++) for the sketch; intervals as
        `trace` and `frobenius_norm`.
    """
    require_sampling(samples, risk)
    known = _Known.of(within)
    if within.complete:
        return known.moments(_Chance(0.0, 0.0, (0.0, 0.0), 0.0), A, "exact", 0.0)
    rest, held = _Rest(A, within.basis, known.top, generator).sketched(samples // 2)
    trace, square = (float(some.sum()) for some in held)
    known = _Known(known.top, known.trace + trace, known.square + square)
    how = f"lanczos(steps={within.steps}) + hutch++(samples={samples})"
    return known.moments(_chance(*rest.sampled(samples), risk), A, how, risk)


def moments_within(
    A: Operator,
    *,
    within: Krylov,
    tolerance: float,
    most: int = 512,
    risk: float = 0.05,
    generator: torch.Generator | None = None,
) -> tuple[Estimate, Estimate, int]:
    """The same two numbers, sampled until one standard error of both is a share of them.

    Args:
        A: Symmetric.
        within: Its Krylov space, as of `krylov_space(..., moments=True)`.
        tolerance: That share.
        most: Samples at most.
        risk: Chance that an interval misses, each for itself, whatever the eigenvalues are.
        generator: Source of the random vectors.

    Returns:
        Trace, Frobenius norm, and how many samples were drawn.

    Raises:
        ValueError: If `risk` or `tolerance` is not in (0, 1).

    Source:
        Hutchinson 1990; the variance of a sample is twice the squared Frobenius norm of the rest,
        which the samples' lengths show.
    """
    require_between(tolerance, 0, 1, name="tolerance", instead="It is a share, e.g. 0.01.")
    if within.complete:
        return *symmetric_moments(A, within=within, risk=risk), 0
    known = _Known.of(within)
    rest = _Rest(A, within.basis, known.top, generator)
    enough = lambda forms, products: known.settled(forms, products, tolerance)
    inner, products = rest.sampled(most, enough)
    how = f"lanczos(steps={within.steps}) + hutchinson(samples={len(inner)})"
    return *known.moments(_chance(inner, products, risk), A, how, risk), len(inner)


@dataclass(frozen=True, slots=True)
class _Chance:
    """What is left to chance: trace, square with its ends, and how far the trace may be off."""

    trace: float
    square: float
    ends: tuple[float, float]
    gap: float


@dataclass(frozen=True, slots=True)
class _Known:
    """What is summed exactly: trace and square, over `top` and its square."""

    top: float
    trace: float
    square: float

    @classmethod
    def of(cls, within: Krylov) -> "_Known":
        top = within.matrix.abs().amax().item() or 1.0
        T = within.matrix / top
        square = T.square().sum().item() + (within.rest / top) ** 2
        return cls(top, T.diagonal().sum().item(), square)

    def settled(self, inner: Sequence[Tensor], products: Sequence[Tensor], share: float) -> bool:
        """Whether one standard error of the trace, and of the norm, is at most a share of them."""
        count = len(inner)
        if count < FEWEST:
            return False
        lengths = torch.stack([y.square().sum() for y in products])
        trace = self.trace + float(torch.stack([*inner]).mean())
        square, error = self.square + float(lengths.mean()), float(lengths.std()) / count**0.5
        spread = math.sqrt(2 * (float(lengths.mean()) + error) / count)  # not stopped by luck
        return spread <= share * abs(trace) and error <= 2 * share * square

    def moments(
        self, rest: _Chance, A: Operator, how: str, risk: float
    ) -> tuple[Estimate, Estimate]:
        """Trace and Frobenius norm of both together."""
        trace, square = self.trace + rest.trace, self.square + rest.square
        slack = precision(A) * max(square, 1.0) * math.sqrt(A.shape[0])
        ends = (self.square + rest.ends[0] - slack, square, self.square + rest.ends[1] + slack)
        low, value, high = (self.top * math.sqrt(max(v, 0.0)) for v in ends)
        gap = rest.gap + slack
        lowest, highest = self.top * (trace - gap), self.top * (trace + gap)
        return (
            Estimate(self.top * trace, lowest, highest, how, risk),
            Estimate(value, min(low, value), max(high, value), how, risk),
        )


def _chance(inner: Tensor, products: Tensor, risk: float) -> _Chance:
    """Trace and square by samples, what bounds the square, and how far the trace may be off."""
    samples = len(inner)
    first, second = float(inner.mean()), float(products.diagonal().mean())
    largest = float(torch.linalg.eigvalsh(products)[-1])
    whole, half = Chances(samples, risk).bounds(second, largest), Chances(samples, risk / 2)
    bound = half.bounds(second, largest)
    return _Chance(first, second, (whole.low, whole.high), half.deviation(bound.high, bound.top))


@dataclass(frozen=True, slots=True)
class _Rest:
    """What a symmetric operator, over `top`, does outside a space that is known.

    Attributes:
        A: The operator.
        V: Basis of the space.
        top: Unit of all numbers here.
        generator: Source of the random vectors.
    """

    A: Operator
    V: Float64[Tensor, "n k"]
    top: float
    generator: torch.Generator | None

    def sketched(self, samples: int) -> tuple["_Rest", Estimates]:
        """The operator outside what some products with normal vectors span, and what they hold."""
        samples = min(samples, len(self.V) - self.V.shape[1])  # more would span nothing new
        inside = self._outside(self._outside(self._times(self._drawn(samples))))
        Q = torch.linalg.qr(self._outside(torch.linalg.qr(inside)[0]))[0]
        back = self._times(Q)
        rest = _Rest(self.A, torch.cat([self.V, Q], dim=1), self.top, self.generator)
        return rest, ((Q * back).sum(0).cpu(), back.square().sum(0).cpu())

    def sampled(
        self, samples: int, enough: Callable[[list[Tensor], list[Tensor]], bool] | None = None
    ) -> tuple[Float64[Tensor, " s"], Float64[Tensor, "s s"]]:
        """`xᵀ A x` for normal vectors less their part in the space, and the Gram matrix of `A x`.

        The trace and the Frobenius norm are those of `P A P` and `A P`, of which the latter is the
        larger; `P` is the projection that leaves the space. Ends early where it is `enough`.
        """
        inner: list[Tensor] = []
        products: list[Tensor] = []
        for _ in range(samples):  # one by one: they may be as long as all weights of a network
            x = self._drawn(1)
            y = self._times(x)
            inner.append((x * y).sum())
            products.append(y[:, 0])
            if enough is not None and enough(inner, products):
                break
        Y = torch.stack(products)
        return torch.stack(inner).cpu(), (Y @ Y.mT).cpu()

    def _outside(self, x: Float64[Tensor, "n s"]) -> Float64[Tensor, "n s"]:
        return x - self.V @ (self.V.mT @ x)

    def _times(self, x: Float64[Tensor, "n s"]) -> Float64[Tensor, "n s"]:
        return self.A.apply(x.to(self.A.like.dtype)).detach().double() / self.top

    def _drawn(self, samples: int) -> Float64[Tensor, "n s"]:
        return self._outside(normal_vectors(self.A, samples, self.generator).to(self.V))
