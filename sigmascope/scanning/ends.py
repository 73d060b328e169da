"""What a matrix writes most and reads most: all of it that a layer it meets needs to know."""

import math
from dataclasses import dataclass

import torch
from jaxtyping import Float, Float64
from torch import Tensor

from sigmascope.linalg.krylov import Leading, leading
from sigmascope.scanning.entries import Entries
from sigmascope.scanning.tasks import Task

BRIEF, USUAL = 8, 12  # steps where only two vectors are wanted, and where the values are too


@dataclass(frozen=True, slots=True)
class Ends:
    """The two ends of a map.

    Attributes:
        writes: Leading left singular vector.
        reads: Leading right singular vector.
        off: Sine of the angle by which both may be off.
        rows: Squared norms of the rows, the weights of each output, in units of `4^power`.
        cols: Squared norms of the columns, the weights of each input, likewise.
        power: Of that unit.
        zero: Whether the matrix is zero.
    """

    writes: Float64[Tensor, " m"]
    reads: Float64[Tensor, " n"]
    off: float
    rows: Float64[Tensor, " m"]
    cols: Float64[Tensor, " n"]
    power: int
    zero: bool


def leading_of(task: Task, A: Float[Tensor, "m n"], seen: Entries) -> Leading:
    """Leading values and two vectors, the same whenever and wherever they are asked for.

    Args:
        task: What is known of the matrix.
        A: The matrix, tamed.
        seen: Its entries, in the same unit.
    """
    steps = USUAL if task.matrix.effort == "leading" else BRIEF
    generator = torch.Generator().manual_seed(task.seed)
    vectors = 2 if task.paired else 0
    return leading(A, energy=seen.energy.high, steps=steps, vectors=vectors, generator=generator)


def ends_of(A: Float[Tensor, "m n"], found: Leading, seen: Entries) -> Ends:
    """The two ends, with how far they may be off."""
    vectors = found.left[:, 0].double(), found.right[:, 0].double()
    return Ends(*vectors, off(found, A, 1), seen.rows, seen.cols, seen.power, zero=False)


def no_ends(seen: Entries) -> Ends:
    """Those of a matrix that is zero, or not finite, and writes nothing that can be compared."""
    zeros = torch.zeros_like(seen.rows), torch.zeros_like(seen.cols)
    return Ends(*zeros, 1.0, seen.rows, seen.cols, seen.power, zero=True)


def off(found: Leading, A: Float[Tensor, "m n"], k: int) -> float:
    """Sine of the angle by which the span of k leading vectors may be off (Wedin 1972).

    The gap is to the value behind them, with its residual: a larger one would have to be hidden
    from the random block altogether.

    Args:
        found: At least `k + 1` values and vectors, if there are as many.
        A: Of which.
        k: How many span it.
    """
    sigma = found.spectrum.sigma
    residual = _residual(found, A, slice(0, k))
    behind = float(sigma[k]) + _residual(found, A, slice(k, k + 1)) if len(sigma) > k else 0.0
    gap = float(sigma[k - 1]) - behind - residual
    return min(1.0, residual / gap) if gap > 0 else 1.0


def _residual(found: Leading, A: Float[Tensor, "m n"], some: slice) -> float:
    u, v, sigma = found.left[:, some], found.right[:, some], found.spectrum.sigma[some]
    W = A.to(u.dtype)
    there = (W @ v).double() - u.double() * sigma
    back = (u.mT @ W).mT.double() - v.double() * sigma
    rounding = 8 * torch.finfo(u.dtype).eps * math.sqrt(max(A.shape)) * float(sigma[0])
    norms = (float(torch.linalg.matrix_norm(side, 2)) for side in (there, back))
    return math.hypot(*norms) + rounding
