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
from dataclasses import dataclass

import torch
from jaxtyping import Float64
from torch import Tensor

from sigmascope.linalg.krylov.lanczos import Krylov
from sigmascope.linalg.krylov.operator import Operator
from sigmascope.linalg.krylov.quadratic_forms import Chances
from sigmascope.linalg.krylov.traces import normal_vectors, precision, require_sampling
from sigmascope.records import Estimate

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
    top = within.matrix.abs().amax().item() or 1.0
    T = within.matrix / top
    trace, square = T.diagonal().sum().item(), T.square().sum().item() + (within.rest / top) ** 2
    how, gap, ends = "exact", 0.0, (square, square)
    if within.complete:
        risk = 0.0
    else:
        rest, known = _Rest(A, within.basis, top, generator).sketched(samples // 2)
        trace, square = trace + known[0].sum().item(), square + known[1].sum().item()
        first, second, bounds, gap = rest.estimated(samples, risk)
        ends = square + bounds[0], square + bounds[1]
        trace, square = trace + first, square + second
        how = f"lanczos(steps={within.steps}) + hutch++(samples={samples})"
    slack = precision(A) * max(square, 1.0) * math.sqrt(len(within.basis))
    low, value, high = (
        top * math.sqrt(max(v, 0.0)) for v in (ends[0] - slack, square, ends[1] + slack)
    )
    gap += slack
    return (
        Estimate(top * trace, top * (trace - gap), top * (trace + gap), how, risk),
        Estimate(value, min(low, value), max(high, value), how, risk),
    )


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

    def sampled(self, samples: int) -> tuple[Float64[Tensor, " s"], Float64[Tensor, "s s"]]:
        """`xᵀ A x` for normal vectors less their part in the space, and the Gram matrix of `A x`.

        The trace and the Frobenius norm are those of `P A P` and `A P`, of which the latter is the
        larger; `P` is the projection that leaves the space.
        """
        inner, products = [], []
        for _ in range(samples):  # one by one: they may be as long as all weights of a network
            x = self._drawn(1)
            y = self._times(x)
            inner.append((x * y).sum())
            products.append(y[:, 0])
        Y = torch.stack(products)
        return torch.stack(inner).cpu(), (Y @ Y.mT).cpu()

    def estimated(
        self, samples: int, risk: float
    ) -> tuple[float, float, tuple[float, float], float]:
        """Trace and square by samples, what bounds the square, and how far the trace may be off."""
        inner, products = self.sampled(samples)
        first, second = float(inner.mean()), float(products.diagonal().mean())
        largest = float(torch.linalg.eigvalsh(products)[-1])
        whole, half = Chances(samples, risk).bounds(second, largest), Chances(samples, risk / 2)
        bound = half.bounds(second, largest)
        return first, second, (whole.low, whole.high), half.deviation(bound.high, bound.top)

    def _outside(self, x: Float64[Tensor, "n s"]) -> Float64[Tensor, "n s"]:
        return x - self.V @ (self.V.mT @ x)

    def _times(self, x: Float64[Tensor, "n s"]) -> Float64[Tensor, "n s"]:
        return self.A.apply(x.to(self.A.like.dtype)).detach().double() / self.top

    def _drawn(self, samples: int) -> Float64[Tensor, "n s"]:
        return self._outside(normal_vectors(self.A, samples, self.generator).to(self.V))
