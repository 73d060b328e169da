"""The neural tangent kernel of a stack, and what it says of its representations."""

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import ClassVar, final

import torch
from jaxtyping import Float64
from torch import Tensor

from sigmascope.core.records import Assumption, Estimate, Sense, largest
from sigmascope.linalg.dense import EPS
from sigmascope.linalg.spectra import spectrum
from sigmascope.models.structure import Point, Stack
from sigmascope.theory.jacot2023.constructions import SOURCE
from sigmascope.theory.jacot2023.facts import (
    OfStacks,
    frobenius_norm,
    log_volume,
    parameter_norm,
    singular_values,
    spectral_norm,
)

ZERO = Estimate.exactly(0.0)
ROUNDS = 200  # of alternating maximisation, which never falls


def ntk_trace(point: Point) -> tuple[float, float]:
    """`Tr Θ(x, x)`, in two parts: of the weights, and of the biases.

    `Σ ‖α_{l-1}‖² ‖∂f/∂z_l‖_F²` and `Σ ‖∂f/∂z_l‖_F²`; the printed formula has the first alone.

    Args:
        point: A stack at an input.

    Source:
        Jacot 2023, Sec. 4.1, with the parameters of the biases.
    """
    sizes = [float(J.square().sum()) for J in point.backwards]
    read = [float(a.square().sum()) for a in point.activations]
    biased = point.stack.biased
    return sum(s * a for s, a in zip(sizes, read, strict=True)), sum(sizes) if biased else 0.0


def ntk_kernel(point: Point) -> Float64[Tensor, "c c"]:
    """`Θ(x, x)`, with the parameters of the biases where there are any.

    Args:
        point: A stack at an input.

    Source:
        Jacot 2023, Sec. 4.1.
    """
    one = 1.0 if point.stack.biased else 0.0
    terms = zip(point.backwards, point.activations, strict=True)
    return sum((J @ J.mT * (float(a @ a) + one) for J, a in terms), torch.zeros(()))


def ntk_norm(point: Point) -> Estimate:
    """`‖Θ(x, x)‖`, with what rounding may have done to it.

    Args:
        point: A stack at an input.
    """
    one = 1.0 if point.stack.biased else 0.0
    kernel = ntk_kernel(point)
    gap = (len(kernel) + len(point.backwards) + 8) * 2.0**-51 * float(kernel.norm())
    layers = zip(point.backwards, point.errors.backwards, read_sizes(point), strict=True)
    for J, error, size in layers:
        norm, wide = float(J.norm()), size.high + one
        gap += (2 * norm * error + error**2 + (J.shape[1] + 8) * 2.0**-51 * norm**2) * wide
        gap += norm**2 * (size.high - size.low)
    return Estimate.within(float(torch.linalg.eigvalsh(kernel)[-1]), gap)


def balance(stack: Stack, *, rounds: int = 10_000) -> Stack:
    """The same function with balanced neurons: in-weights and out-weights of one norm.

    Every neuron is rescaled by `(out / in)^{1/4}` until nothing changes; the norm never rises.

    Args:
        stack: A stack.
        rounds: How often at most.

    Source:
        Jacot 2023, Sec. 4.1; balance is what every stationary point of the regularised cost has.
    """
    weights, biases = [w.clone() for w in stack.weights], [b.clone() for b in stack.biases]
    for _ in range(rounds):
        worst = 0.0
        for layer in range(len(weights) - 1):
            into = weights[layer].square().sum(1) + biases[layer].square()
            out = weights[layer + 1].square().sum(0)
            dead = (into <= 0) | (out <= 0)  # nothing passes: both sides may be zero
            scale = torch.where(dead, 0.0, (out / into.where(~dead, torch.ones_like(into))) ** 0.25)
            weights[layer] *= scale[:, None]
            biases[layer] *= scale
            inverse = torch.where(dead, 0.0, 1 / scale.where(~dead, torch.ones_like(scale)))
            weights[layer + 1] *= inverse
            moved = (scale[~dead] - 1).abs()
            worst = max(worst, float(moved.max()) if len(moved) else 0.0)
        if worst < 1e-15:
            break
    return replace(stack, weights=tuple(weights), biases=tuple(biases))


def whole_trace(point: Point) -> Estimate:
    """`Tr Θ(x, x)` with its rounding."""
    one = 1.0 if point.stack.biased else 0.0
    slopes = zip(point.backwards, point.errors.backwards, strict=True)
    terms = zip(slopes, read_sizes(point), strict=True)
    return sum(
        (frobenius_norm(J, gap) ** 2 * (a + one) for (J, gap), a in terms), Estimate.exactly(0.0)
    )


def read_sizes(point: Point) -> Iterator[Estimate]:
    """`‖α_{l-1}‖²` of every layer."""
    rise = max(1.0, abs(point.stack.slope))
    gaps = [0.0, *(rise * float(e.norm()) for e in point.errors.preactivations[:-1])]
    for a, gap in zip(point.activations, gaps, strict=True):
        yield frobenius_norm(a, gap + EPS * float(a.norm())) ** 2


@final
@dataclass(frozen=True, slots=True)
class TangentCurvature(OfStacks):
    """The tangent kernel bends at least as much as depth and Jacobian make it."""

    name: ClassVar[str] = "ntk-mixed-derivative"
    source: ClassVar[str] = f"{SOURCE}, Prop. 9 (1), with L in the place of 2L"
    statement: ClassVar[str] = "‖∂²_{xy} Θ(x,x)‖ ≥ L ‖Jf(x)‖^{2-2/L}"
    sense: ClassVar[Sense] = "at least"
    relu_only: ClassVar[bool] = True

    def both(self, point: Point) -> tuple[Estimate, Estimate]:
        depth, top = point.stack.depth, spectral_norm(point.jacobian, point.errors.jacobian)
        # The value is the largest that alternating maximisation finds, with two unit vectors that
        # have it. Besides the identities all derivatives come through the first and the last
        # weight, so that the vectors lie in the rows of one and in the columns of the other.
        weights = point.stack.weights
        rows, columns = _basis(weights[0].mT), _basis(weights[-1])
        pairs = zip(point.forwards, point.backwards, strict=True)
        grams = [(_gram(F @ rows), _gram(B.mT @ columns)) for F, B in pairs]
        U, _, Vh = torch.linalg.svd(point.jacobian, full_matrices=False)
        u, v, value = rows.mT @ Vh[0], columns.mT @ U[:, 0], 0.0
        for _ in range(ROUNDS):
            left = sum((float(v @ B @ v) * F for F, B in grams), torch.zeros(()))
            u = torch.linalg.eigh(left)[1][:, -1]
            right = sum((float(u @ F @ u) * B for F, B in grams), torch.zeros(()))
            lam, vectors = torch.linalg.eigh(right)
            v, before, value = vectors[:, -1], value, float(lam[-1])
            if value <= before * (1 + 1e-13):
                break
        u, v = rows @ u, columns @ v
        # from the directions that were found below; above, by the norms of all layers apart
        errors, least, most = point.errors, Estimate.exactly(0.0), Estimate.exactly(0.0)
        layers = zip(
            point.forwards, point.backwards, errors.forwards, errors.backwards, strict=True
        )
        # the first derivative in and the last one out are identities, of which nothing is computed
        norms_in = [
            Estimate.exactly(1.0),
            *map(spectral_norm, point.forwards[1:], errors.forwards[1:]),
        ]
        norms_out = [
            *map(spectral_norm, point.backwards[:-1], errors.backwards),
            Estimate.exactly(1.0),
        ]
        for (F, B, into, out), norm_in, norm_out in zip(layers, norms_in, norms_out, strict=True):
            rounding = lambda A, gap: gap + (sum(A.shape) + 4) * 2.0**-51 * float(A.norm())
            along = frobenius_norm(F @ u, rounding(F, into)) * frobenius_norm(
                B.mT @ v, rounding(B, out)
            )
            least = least + along**2
            most = most + (norm_in * norm_out) ** 2
        value = min(max(value, least.low), most.high)
        mixed = Estimate(value, least.low, most.high, "alternating maximisation, from below")
        return mixed, depth * top ** (2 - Fraction(2, depth))


def _basis(A: Float64[Tensor, "m n"]) -> Float64[Tensor, "m r"]:
    """Orthonormal columns that span those of a tall matrix; of a wide one, of all there is."""
    return torch.linalg.qr(A)[0] if len(A) > A.shape[1] else torch.eye(len(A), dtype=A.dtype)


def _gram(A: Float64[Tensor, "m n"]) -> Float64[Tensor, "n n"]:
    return A.mT @ A


# ------------------------------------------------------------------------------
# What a balanced network with a small tangent kernel keeps small: Theorem 7 and Corollary 8.


@dataclass(frozen=True, slots=True)
class _OfBalanced(OfStacks):
    """A theorem about balanced networks.

    Of balance the proof uses one consequence, which is what is asked for: no first layers have more
    than their share of the norm. (In a balanced network no layer has less than the one before it.)
    """

    def more(self) -> tuple[Assumption, ...]:
        assert self.point is not None
        defect = self.point.stack.balance_defect()
        said = "the first l layers have at most l/L of the norm, as in a balanced network"
        met = _surplus(self.point.stack).low <= 0
        return (Assumption(f"{said} (relative defect {defect:.1g})", met),)


def _surplus(stack: Stack) -> Estimate:
    """`max_l Σ_{j≤l} ‖W_j‖² - (l/L) ‖θ‖²`: how much more than their share the first layers have."""
    whole, below, found = parameter_norm(stack), ZERO, []
    for layer, size in enumerate(stack.sizes, start=1):
        below = below + size
        found.append(below - whole * layer / stack.depth)
    return largest(*found)


def _exponent(stack: Stack, k: int) -> Estimate:
    """`max(0, c₁/k)` for `c₁ = ‖θ‖² - k L`, and what rounding leaves open of the shares of norm."""
    growth = (parameter_norm(stack) - k * stack.depth) / k
    return growth.at_least(0.0) + Estimate(0.0, 0.0, max(_surplus(stack).high, 0.0) / k, "exact")


@final
@dataclass(frozen=True, slots=True)
class RepresentationSize(_OfBalanced):
    """A balanced network with a small tangent kernel has small representations."""

    name: ClassVar[str] = "representation-size"
    source: ClassVar[str] = f"{SOURCE}, Theorem 7, without 1/N, for balanced networks"
    statement: ClassVar[str] = "Σ ‖α_{l-1}(x)‖² ≤ Tr Θ(x,x) max(1, e^{c₁/k}) / (k |Jf(x)|_+^{2/k})"

    def both(self, point: Point) -> tuple[Estimate, Estimate]:
        logs = log_volume(singular_values(point.spectrum))
        k = len(singular_values(point.spectrum))
        power = _exponent(point.stack, k) - 2 * logs / k
        return sum(read_sizes(point), Estimate.exactly(0.0)), whole_trace(point) * power.exp() / k


@final
@dataclass(frozen=True, slots=True)
class RepresentationRank(_OfBalanced):
    """Most representations of a batch have few directions, in a balanced network of small kernel.

    For half of the layers (p = 1/2), with weights and biases together.

    Attributes:
        directions: k; as many as have a known singular value at every sample.
        values: `s_{k+1}` of each layer's pre-activations over √N.
        trace: Mean of `Tr Θ(x, x)` over the batch.
        spread: Least and largest `log |Jf(x)|_k` over the batch.
    """

    name: ClassVar[str] = "representation-rank"
    source: ClassVar[str] = f"{SOURCE}, Corollary 8, biases included"
    statement: ClassVar[str] = (
        "in half of the layers s_{k+1}(z_l / √N) ≤ (p √L)^{-1} "
        "√(c (c₁ - 2 log max|Jf|_+) max(1, e^{c₁/k}) / (k min|Jf|_+^{2/k}))"
    )

    directions: int = 0
    values: tuple[Estimate, ...] = ()
    trace: Estimate = ZERO
    spread: tuple[Estimate, Estimate] = (ZERO, ZERO)

    @property
    def typical(self) -> Estimate:
        """What half of the layers have at most; each end of it is that of half of the layers."""
        half = math.ceil(len(self.values) / 2) - 1
        value, low, high = (
            sorted(ends)[half]
            for ends in zip(*((e.value, e.low, e.high) for e in self.values), strict=True)
        )
        return Estimate(value, low, high, "exact")

    def always(self) -> tuple[float, float]:
        # where half of the layers have no more than k units, or there are no more than k samples
        return (0.0, 0.0) if self.typical.high == 0 else super(RepresentationRank, self).always()

    def both(self, point: Point) -> tuple[Estimate, Estimate]:
        depth, (least, most), k = point.stack.depth, self.spread, self.directions
        excess = parameter_norm(point.stack) - k * depth - 2 * most
        room = excess.at_least(0.0) * self.trace / depth
        power = _exponent(point.stack, k) - 2 * least / k
        limit = 2 * (room * power.exp() / k).sqrt() / math.sqrt(depth)
        return self.typical, limit

    @classmethod
    def on(cls, stack: Stack, rows: Float64[Tensor, "n d"]) -> Iterator["RepresentationRank"]:
        """On some inputs; nothing where the Jacobian has no known direction on all of them."""
        found = [stack.at(x) for x in rows]
        spectra = [singular_values(p.spectrum) for p in found]
        k = min((len(s) for s in spectra), default=0)
        if k == 0:
            return
        logs = [log_volume(s[:k]) for s in spectra]
        # `s_{k+1}` of what each layer writes, over the root of the number of samples
        values: list[Estimate] = []
        for layer in range(stack.depth):
            s = spectrum(torch.stack([p.preactivations[layer] for p in found]), route="exact")
            gap = math.sqrt(
                sum(float(p.errors.preactivations[layer].square().sum()) for p in found)
            )
            size = ZERO
            if len(s.sigma) > k:
                low, value, high = (float(t[k]) for t in (s.low, s.sigma, s.high))
                size = Estimate(value, max(low - gap, 0.0), high + gap, "exact")
                size = size / math.sqrt(len(found))
            values.append(size)
        trace = sum(map(whole_trace, found), ZERO) / len(found)
        ends = -largest(*(-e for e in logs)), largest(*logs)
        yield cls(f"{len(found)} samples", found[0], "", k, tuple(values), trace, ends)
