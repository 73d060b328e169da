"""Plain stacks of linear maps with one activation of two slopes, and their derivatives."""

from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import final

import torch
from jaxtyping import Float64
from torch import Tensor

from sigmascope.linalg.spectra import spectrum
from sigmascope.probes.structure.rounding_bounds import Errors, running_errors
from sigmascope.records import Estimate, Spectrum

EPS = 2.0**-52
SOLVED = 2**20  # entries up to which the spectral norm of a weight is computed


@final
@dataclass(frozen=True)
class Stack:
    """`W_L σ(... σ(W_1 x + b_1) ...) + b_L` with `σ(z) = z` above 0 and `a z` below.

    Attributes:
        sites: Names of the layers.
        weights: `W_1` to `W_L`, `[out, in]`; a convolution as the matrix of its images.
        biases: `b_1` to `b_L`; zero where there is none.
        slope: a; 1 for a linear network.
        biased: Whether any layer has a bias.
    """

    sites: tuple[str, ...]
    weights: tuple[Float64[Tensor, "_ _"], ...]
    biases: tuple[Float64[Tensor, " _"], ...]
    slope: float
    biased: bool = True

    def __post_init__(self) -> None:
        for below, above in pairwise(self.weights):
            if below.shape[0] != above.shape[1]:
                raise ValueError(
                    f"A layer must read what the one below writes, got {tuple(above.shape)} after "
                    f"{tuple(below.shape)}. List the weights in the order of the forward pass."
                )

    @property
    def depth(self) -> int:
        """L."""
        return len(self.weights)

    @property
    def weight_norm(self) -> float:
        """`Σ ‖W_l‖_F²`."""
        return sum(float(w.square().sum()) for w in self.weights)

    @property
    def norm(self) -> float:
        """`‖θ‖² = Σ ‖W_l‖_F² + ‖b_l‖²`."""
        return self.weight_norm + sum(float(b.square().sum()) for b in self.biases)

    @cached_property
    def sizes(self) -> tuple[Estimate, ...]:
        """`‖W_1‖_F²` to `‖W_L‖_F²`, with their rounding."""
        return tuple(map(Estimate.sum_of_squares, self.weights))

    @cached_property
    def spectra(self) -> tuple[Spectrum, ...]:
        """Singular values of `W_1` to `W_L`."""
        return tuple(spectrum(w, route="exact") for w in self.weights)

    @cached_property
    def spectral_norms(self) -> tuple[float, ...]:
        """At least `‖W_l‖`; the Frobenius norm of weights that are too large to be factorised."""
        norms = (
            float(torch.linalg.matrix_norm(w, 2)) if w.numel() <= SOLVED else float(w.norm())
            for w in self.weights
        )
        gaps = (4 * max(w.shape) * EPS for w in self.weights)
        return tuple(norm * (1 + gap) for norm, gap in zip(norms, gaps, strict=True))

    def at(self, x: Float64[Tensor, " d"]) -> "Point":
        """Everything at one input."""
        return Point(self, x)

    def balance_defect(self) -> float:
        """Largest `|‖W_l,i‖² + b_l,i² - ‖W_l+1,·i‖²|`, relative to the largest of the norms."""
        worst = size = 0.0
        for W, b, V in zip(self.weights, self.biases, self.weights[1:], strict=False):
            into, out = W.square().sum(1) + b.square(), V.square().sum(0)
            worst = max(worst, float((into - out).abs().max()))
            size = max(size, float(into.max()), float(out.max()))
        return worst / size if size > 0 else 0.0


@final
@dataclass(frozen=True)
class Point:
    """A stack at one input: pre-activations, slopes, and the chains of derivatives.

    Attributes:
        stack: The network.
        x: The input.
    """

    stack: Stack
    x: Float64[Tensor, " d"]

    @cached_property
    def preactivations(self) -> tuple[Float64[Tensor, " _"], ...]:
        """`z_1` to `z_L`; the last is the output."""
        found, a = [], self.x
        for W, b in zip(self.stack.weights, self.stack.biases, strict=True):
            found.append(W @ a + b)
            a = found[-1] * _slopes(found[-1], self.stack.slope)
        return tuple(found)

    @cached_property
    def slopes(self) -> tuple[Float64[Tensor, " _"], ...]:
        """Diagonals of `D_1` to `D_L`; the last is one."""
        hidden = [_slopes(z, self.stack.slope) for z in self.preactivations[:-1]]
        return (*hidden, torch.ones_like(self.preactivations[-1]))

    @property
    def activations(self) -> tuple[Float64[Tensor, " _"], ...]:
        """`α_0 = x` to `α_{L-1}`: what each layer reads."""
        hidden = zip(self.preactivations[:-1], self.slopes[:-1], strict=True)
        return (self.x, *(z * d for z, d in hidden))

    @cached_property
    def forwards(self) -> tuple[Float64[Tensor, "_ d"], ...]:
        """`∂α_0/∂x` to `∂α_{L-1}/∂x`."""
        found = [torch.eye(len(self.x), dtype=torch.float64)]
        for W, d in zip(self.stack.weights[:-1], self.slopes[:-1], strict=True):
            found.append(d[:, None] * (W @ found[-1]))
        return tuple(found)

    @cached_property
    def backwards(self) -> tuple[Float64[Tensor, "c _"], ...]:
        """`∂f/∂z_1` to `∂f/∂z_L`; the last is the identity."""
        found = [torch.eye(self.stack.weights[-1].shape[0], dtype=torch.float64)]
        for W, d in zip(self.stack.weights[:0:-1], self.slopes[-2::-1], strict=True):
            found.append(found[-1] @ W * d)
        return tuple(reversed(found))

    @cached_property
    def jacobian(self) -> Float64[Tensor, "c d"]:
        """`∂f/∂x`."""
        return self.backwards[0] @ self.stack.weights[0]

    @cached_property
    def errors(self) -> Errors:
        """What rounding may have done to each of these."""
        return running_errors(
            self.stack.weights,
            self.stack.biases,
            self.stack.spectral_norms,
            slope=self.stack.slope,
            activations=self.activations,
            preactivations=self.preactivations,
            forwards=self.forwards,
            backwards=self.backwards,
        )

    @cached_property
    def spectrum(self) -> Spectrum:
        """Singular values of the Jacobian, with what its own rounding may have moved them by."""
        s = spectrum(self.jacobian, route="exact")
        gap = self.errors.jacobian
        low, high = (s.low - gap).clamp_min(0), s.high + gap
        return Spectrum(s.sigma, s.shape, s.how, low, high)


def _slopes(z: Tensor, slope: float) -> Tensor:
    return torch.where(z > 0, torch.ones_like(z), torch.full_like(z, slope))
