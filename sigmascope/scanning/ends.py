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
        rows: Squared norms of the rows, the weights of each output.
        cols: Squared norms of the columns, the weights of each input.
        zero: Whether the matrix is zero.
    """

    writes: Float64[Tensor, " m"]
    reads: Float64[Tensor, " n"]
    off: float
    rows: Float64[Tensor, " m"]
    cols: Float64[Tensor, " n"]
    zero: bool


def leading_of(task: Task, A: Float[Tensor, "m n"], seen: Entries) -> Leading:
    """Leading values and two vectors, the same whenever and wherever they are asked for."""
    steps = USUAL if task.matrix.effort == "leading" else BRIEF
    generator = torch.Generator().manual_seed(task.seed)
    vectors = 2 if task.paired else 0
    return leading(A, energy=seen.energy.high, steps=steps, vectors=vectors, generator=generator)


def ends_of(A: Float[Tensor, "m n"], found: Leading, seen: Entries) -> Ends:
    """The two ends, with how far they may be off."""
    vectors = found.left[:, 0].double(), found.right[:, 0].double()
    return Ends(*vectors, off(found, A, 1), seen.rows, seen.cols, zero=False)


def no_ends(seen: Entries) -> Ends:
    """Those of a matrix that is zero, or not finite, and writes nothing that can be compared."""
    zeros = torch.zeros_like(seen.rows), torch.zeros_like(seen.cols)
    return Ends(*zeros, 1.0, seen.rows, seen.cols, zero=True)


def off(found: Leading, A: Float[Tensor, "m n"], k: int) -> float:
    """Sine of the angle by which the span of k leading vectors may be off (Wedin 1972)."""
    u, v, sigma = found.left[:, :k].double(), found.right[:, :k].double(), found.spectrum.sigma
    W = A.to(found.left.dtype)
    there = (W @ found.right[:, :k]).double() - u * sigma[:k]
    back = (found.left[:, :k].mT @ W).mT.double() - v * sigma[:k]
    residual = math.hypot(*(float(torch.linalg.matrix_norm(side, 2)) for side in (there, back)))
    gap = float(sigma[k - 1]) - (float(sigma[k]) if len(sigma) > k else 0.0) - residual
    return min(1.0, residual / gap) if gap > 0 else 1.0
