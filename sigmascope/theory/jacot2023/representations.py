"""What a balanced network with a small tangent kernel keeps small: Theorem 7 and Corollary 8."""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar, final

import torch
from jaxtyping import Float64
from torch import Tensor

from sigmascope.linalg.spectra import spectrum
from sigmascope.probes.structure import Point, Stack
from sigmascope.records import Assumption, Estimate, largest
from sigmascope.theory.jacot2023.constructions.linear_maps import SOURCE
from sigmascope.theory.jacot2023.facts import OfStacks, log_volume, parameter_norm, singular_values
from sigmascope.theory.jacot2023.tangents import read_sizes, whole_trace

ZERO = Estimate.exactly(0.0)


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
        values = [_beyond(found, layer, k) for layer in range(stack.depth)]
        trace = sum(map(whole_trace, found), ZERO) / len(found)
        ends = -largest(*(-e for e in logs)), largest(*logs)
        yield cls(f"{len(found)} samples", found[0], "", k, tuple(values), trace, ends)


def _beyond(found: list[Point], layer: int, k: int) -> Estimate:
    """`s_{k+1}` of what a layer writes for some samples, over the root of their number."""
    Z = torch.stack([p.preactivations[layer] for p in found])
    gap = math.sqrt(sum(float(p.errors.preactivations[layer].square().sum()) for p in found))
    s = spectrum(Z, route="exact")
    if len(s.sigma) <= k:
        return ZERO
    low, value, high = (float(t[k]) for t in (s.low, s.sigma, s.high))
    return Estimate(value, max(low - gap, 0.0), high + gap, "exact") / math.sqrt(len(found))
