"""The neural tangent kernel of a stack, and what it says of its representations."""

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import ClassVar, final

import torch
from jaxtyping import Float64
from torch import Tensor

from sigmascope.linalg import Estimate
from sigmascope.probes import Point, Stack
from sigmascope.theory.bounds import Assumption, Sense
from sigmascope.theory.jacot2023.facts import OfStacks, rounded, singular_values
from sigmascope.theory.jacot2023.linear import SOURCE

BALANCED = 1e-6  # relative defect up to which a stack counts as balanced


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


def whole_cost(point: Point, s: Tensor) -> tuple[int, float]:
    """Rank k, and `c₁ = ‖θ‖² - k L`."""
    return len(s), point.stack.norm - len(s) * point.stack.depth


@dataclass(frozen=True, slots=True)
class _OfBalanced(OfStacks):
    """A theorem about balanced networks."""

    def more(self) -> tuple[Assumption, ...]:
        assert self.point is not None
        defect = self.point.stack.balance_defect()
        said = f"neurons are balanced (relative defect {defect:.1g})"
        return (Assumption(said, defect <= BALANCED),)


@final
@dataclass(frozen=True, slots=True)
class RepresentationSize(_OfBalanced):
    """A balanced network with a small tangent kernel has small representations."""

    name: ClassVar[str] = "representation-size"
    source: ClassVar[str] = f"{SOURCE}, Theorem 7, without 1/N, for balanced networks"
    statement: ClassVar[str] = "Σ ‖α_{l-1}(x)‖² ≤ Tr Θ(x,x) max(1, e^{c₁/k}) / (k |Jf(x)|_+^{2/k})"

    def left(self, point: Point) -> Estimate:
        value = sum(float(a.square().sum()) for a in point.activations)
        return rounded(value, value)

    def right(self, point: Point) -> Estimate:
        s = singular_values(point.jacobian)
        k, c1 = whole_cost(point, s)
        log_det = 2 * float(s.log().sum()) / k
        value = sum(ntk_trace(point)) * math.exp(max(0.0, c1 / k) - log_det) / k
        return rounded(value, value)


@final
@dataclass(frozen=True, slots=True)
class RepresentationRank(_OfBalanced):
    """Most representations of a batch have few directions, in a balanced network of small kernel.

    For half of the layers (p = 1/2), with weights and biases together.

    Attributes:
        values: `s_{k+1}` of each layer's pre-activations over √N, ascending.
        trace: Mean of `Tr Θ(x, x)` over the batch.
        spread: Least and largest `log |Jf(x)|_+` over the batch.
    """

    name: ClassVar[str] = "representation-rank"
    source: ClassVar[str] = f"{SOURCE}, Corollary 8, biases included"
    statement: ClassVar[str] = (
        "in half of the layers s_{k+1}(z_l / √N) ≤ (p √L)^{-1} "
        "√(c (c₁ - 2 log max|Jf|_+) max(1, e^{c₁/k}) / (k min|Jf|_+^{2/k}))"
    )

    values: tuple[float, ...] = ()
    trace: float = 0.0
    spread: tuple[float, float] = (0.0, 0.0)

    def left(self, point: Point) -> Estimate:
        middle = self.values[math.ceil(len(self.values) / 2) - 1]
        return rounded(middle, max(self.values))

    def right(self, point: Point) -> Estimate:
        depth, (least, most) = point.stack.depth, self.spread
        k, c1 = whole_cost(point, singular_values(point.jacobian))
        room = self.trace / depth * max(0.0, c1 - 2 * most) * math.exp(max(0.0, c1 / k))
        value = 2 / math.sqrt(depth) * math.sqrt(room / k / math.exp(2 * least / k))
        return rounded(value, value)

    @classmethod
    def on(cls, stack: Stack, rows: Float64[Tensor, "n d"]) -> Iterator["RepresentationRank"]:
        """On some inputs; nothing where the Jacobian has not one rank on all of them."""
        found = [stack.at(x) for x in rows]
        spectra = [singular_values(p.jacobian) for p in found]
        ranks = {len(s) for s in spectra}
        if len(ranks) != 1 or 0 in ranks:
            return
        k = ranks.pop()
        logs = [float(s.log().sum()) for s in spectra]
        values = [
            _beyond(torch.stack([p.preactivations[layer] for p in found]), k)
            for layer in range(stack.depth)
        ]
        trace = sum(sum(ntk_trace(p)) for p in found) / len(found)
        site = f"{len(found)} samples"
        yield cls(site, found[0], "", tuple(sorted(values)), trace, (min(logs), max(logs)))


def _beyond(Z: Float64[Tensor, "n w"], k: int) -> float:
    s = torch.linalg.svdvals(Z / math.sqrt(len(Z)))
    return float(s[k]) if len(s) > k else 0.0


@final
@dataclass(frozen=True, slots=True)
class TangentCurvature(OfStacks):
    """The tangent kernel bends at least as much as depth and Jacobian make it."""

    name: ClassVar[str] = "ntk-mixed-derivative"
    source: ClassVar[str] = f"{SOURCE}, Prop. 9 (1), with L in the place of 2L"
    statement: ClassVar[str] = "‖∂²_{xy} Θ(x,x)‖ ≥ L ‖Jf(x)‖^{2-2/L}"
    sense: ClassVar[Sense] = "at least"
    relu_only: ClassVar[bool] = True

    def left(self, point: Point) -> Estimate:
        value = mixed_derivative(point)
        tops = [
            float(torch.linalg.matrix_norm(F, 2) * torch.linalg.matrix_norm(B, 2)) ** 2
            for F, B in zip(point.forwards, point.backwards, strict=True)
        ]
        low, high = value * (1 - 1e-10), sum(tops) * (1 + 1e-10)
        return Estimate(value, low, max(high, value), "alternating maximisation, from below")

    def right(self, point: Point) -> Estimate:
        depth = point.stack.depth
        top = float(torch.linalg.matrix_norm(point.jacobian, 2))
        value = depth * top ** (2 - 2 / depth)
        return rounded(value, value)


def mixed_derivative(point: Point, *, rounds: int = 200) -> float:
    """`max_{u,v} Σ_l ‖J α_{l-1} u‖² ‖(∂f/∂z_l)ᵀ v‖²` over unit vectors, from below.

    Args:
        point: A ReLU stack at an input.
        rounds: Of alternating maximisation, which never falls.

    Source:
        Jacot 2023, Prop. 9.
    """
    grams = [(F.mT @ F, B @ B.mT) for F, B in zip(point.forwards, point.backwards, strict=True)]
    U, _, Vh = torch.linalg.svd(point.jacobian, full_matrices=False)
    u, v, value = Vh[0], U[:, 0], 0.0
    for _ in range(rounds):
        left = sum((float(v @ B @ v) * F for F, B in grams), torch.zeros(()))
        u = torch.linalg.eigh(left)[1][:, -1]
        right = sum((float(u @ F @ u) * B for F, B in grams), torch.zeros(()))
        lam, vectors = torch.linalg.eigh(right)
        v, before, value = vectors[:, -1], value, float(lam[-1])
        if value <= before * (1 + 1e-13):
            break
    return value
