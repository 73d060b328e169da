"""A running error bound of what is known of a stack at an input.

Every product adds its own roundings to what the error of its operand becomes (Higham 2002, Sec.
3.3). The invariant: the norm of the error of row `i` of a derivative is at most `rows[i]`, and that
of all of it at most `whole`. Rows matter because a unit that is off passes no error on; the whole
because norms of matrices grow more slowly than sums over their rows. A unit whose side rounding may
have decided counts as both.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

import torch
from jaxtyping import Float64
from torch import Tensor

EPS = 2.0**-52
Vectors = Sequence[Float64[Tensor, " _"]]
Matrices = Sequence[Float64[Tensor, "_ _"]]


@final
@dataclass(frozen=True, slots=True)
class Errors:
    """How far rounding may have moved what is known of a stack at an input.

    Attributes:
        preactivations: Of each entry of `z_1` to `z_L`.
        decided: Whether every unit is surely on one side of its kink, or exactly at it.
        chains: Of `∂z_1/∂x` to `∂z_L/∂x`, in the Frobenius norm.
        forwards: Of `∂α_0/∂x` to `∂α_{L-1}/∂x`.
        backwards: Of `∂f/∂z_1` to `∂f/∂z_L`.
        reads: Of `∂f/∂α_0` to `∂f/∂α_{L-1}`.
    """

    preactivations: tuple[Float64[Tensor, " _"], ...]
    decided: bool
    chains: tuple[float, ...]
    forwards: tuple[float, ...]
    backwards: tuple[float, ...]
    reads: tuple[float, ...]

    @property
    def jacobian(self) -> float:
        """Of `∂f/∂x`."""
        return self.reads[0]


def running_errors(
    weights: Matrices,
    biases: Vectors,
    norms: Sequence[float],
    *,
    slope: float,
    activations: Vectors,
    preactivations: Vectors,
    forwards: Matrices,
    backwards: Matrices,
) -> Errors:
    """The errors of everything at one input.

    Args:
        weights: `W_1` to `W_L`, exact.
        biases: `b_1` to `b_L`, exact.
        norms: At least `‖W_l‖`.
        slope: Of the activation below zero.
        activations: `α_0` to `α_{L-1}`, as computed; so are the others.
        preactivations: `z_1` to `z_L`.
        forwards: `∂α_0/∂x` to `∂α_{L-1}/∂x`.
        backwards: `∂f/∂z_1` to `∂f/∂z_L`.

    Source:
        Higham 2002, Accuracy and Stability of Numerical Algorithms, Sec. 3.1 and 3.3.
    """
    units, gates = _units(weights, biases, slope, activations, preactivations)
    spread = abs(1 - slope)  # how far the slopes of the two sides of a kink are apart
    chains, ahead = [0.0], [0.0]  # the first and the last product are the weights themselves
    state = _Rows.none(len(weights[0])).gated(weights[0], gates[0], spread)
    for W, norm, F, gate in zip(weights[1:], norms[1:], forwards[1:], gates[1:], strict=True):
        ahead.append(state.whole)
        state = state.multiplied(W, norm, F)
        chains.append(state.whole)
        state = state.gated(W @ F, gate, spread)
    state, reads, back = _Rows.none(weights[-1].shape[1]), [0.0], [0.0]
    for layer in reversed(range(len(weights) - 1)):
        W, B = weights[layer], backwards[layer]
        above = (
            weights[-1] if layer == len(weights) - 2 else backwards[layer + 1] @ weights[layer + 1]
        )
        state = state.gated(above.mT, gates[layer], spread)
        back.append(state.whole)
        state = state.multiplied(W.mT, norms[layer], B.mT)
        reads.append(state.whole)
    decided = not any(bool(unsure.any()) for _, unsure in gates)
    both = tuple(reversed(back)), tuple(reversed(reads))
    return Errors(units, decided, tuple(chains), tuple(ahead), *both)


Gate = tuple[Tensor, Tensor]  # the slope of each unit, and whether it may be the other one


def _units(
    weights: Matrices, biases: Vectors, slope: float, activations: Vectors, zs: Vectors
) -> tuple[tuple[Tensor, ...], list[Gate]]:
    """Error of every pre-activation, and on which side the units are."""
    errors, gates, before = [], [], torch.zeros_like(activations[0])
    steepest = torch.tensor(max(1.0, abs(slope)), dtype=torch.float64)
    for W, b, a, z in zip(weights, biases, activations, zs, strict=True):
        size = W.abs() @ a.abs() + b.abs()
        errors.append(W.abs() @ before + (len(a) + 2) * EPS * size)
        slopes = torch.where(z > 0, 1.0, slope).abs()
        unsure = (z.abs() <= errors[-1]) & (errors[-1] > 0)
        gates.append((slopes, unsure))
        before = torch.where(unsure, steepest, slopes) * errors[-1] + EPS * slopes * z.abs()
    last = gates[-1][0]  # the output has no kink
    gates[-1] = (torch.ones_like(last), torch.zeros_like(last, dtype=torch.bool))
    return tuple(errors), gates


@final
@dataclass(frozen=True, slots=True)
class _Rows:
    """The invariant of this file."""

    rows: Tensor
    whole: float

    @classmethod
    def none(cls, count: int) -> "_Rows":
        return cls(torch.zeros(count, dtype=torch.float64), 0.0)

    def multiplied(self, W: Tensor, norm: float, F: Tensor) -> "_Rows":
        """Of `W F`, where this is of `F` and `W` is exact, of at most this spectral norm."""
        own = (W.shape[1] + 2) * EPS
        sizes = F.norm(dim=1)
        rows = W.abs() @ (self.rows + own * sizes)
        return self.bounded(rows, norm * self.whole + own * float(W.norm()) * float(F.norm()))

    def gated(self, rows: Tensor, gate: Gate, spread: float) -> "_Rows":
        """Of rows that were multiplied by the slopes of units, where this is of the rows."""
        slopes, unsure = gate
        sizes = rows.norm(dim=1)
        other = torch.where(unsure, spread * (sizes + self.rows), 0.0)
        passed = slopes * (self.rows + EPS * sizes)
        steepest = max(1.0, float(slopes.max()))
        extra = float((other + EPS * slopes * sizes).norm())
        return self.bounded(passed + other, steepest * self.whole + extra)

    @staticmethod
    def bounded(rows: Tensor, whole: float) -> "_Rows":
        whole = min(float(rows.norm()), whole)
        return _Rows(rows.clamp_max(whole), whole)
