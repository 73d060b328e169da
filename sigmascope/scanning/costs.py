"""What it costs to measure a matrix: multiplications, seconds of one core, memory."""

import time
from functools import cache

import torch

from sigmascope.records.scans import Effort

FULL_SIDE = 4096  # of the smaller side, up to which all singular values are computed
SMALL_SIDE = 256  # up to which all are computed whatever is asked: it costs no more
SKINNY = 1170.0  # multiplications for each entry, by the time that blocks of 16 vectors take
SOLVING = 3.0  # times the cube of the smaller side: the eigensolver is slower than products
RESTING = 300 * 2**20  # of a process with torch in it


def effort_of(shape: tuple[int, int], asked: str) -> Effort:
    """Whether all singular values are computed, or the leading ones.

    Args:
        shape: Of the matrix.
        asked: `"auto"`, `"full"` or `"leading"`.
    """
    side = min(shape)
    if asked == "full" or side <= SMALL_SIDE:
        return "full"
    return "leading" if asked == "leading" or side > FULL_SIDE else "full"


def work_of(shape: tuple[int, int], effort: Effort) -> float:
    """Multiplications, those of the eigensolver counted by the time they take."""
    m, n = shape
    side = min(m, n)
    reading = 64.0 * m * n + 1e6
    if effort == "leading":
        return reading + SKINNY * m * n
    return reading + 0.45 * SKINNY * m * n + 0.6 * m * n * side + SOLVING * side**3


def memory_of(shape: tuple[int, int], stored: int, effort: Effort) -> int:
    """Peak of a process in bytes: the numbers as stored and in single precision, and the solver."""
    m, n = shape
    side = min(m, n)
    solver = 16 * side * side if effort == "full" else 8 * (m + n) * 192 * 2
    return RESTING + stored + max(solver, 4 * m * n) + 2**26


@cache
def rate() -> float:
    """Multiplications in a second of one core, measured here on a matrix of a moderate size."""
    side = 512
    A = torch.randn(side, side, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        best = min(_seconds(A) for _ in range(3))
    finally:
        torch.set_num_threads(threads)
    return work_of((side, side), "full") / best


def _seconds(A: torch.Tensor) -> float:
    began = time.perf_counter()
    torch.linalg.eigvalsh(A.mT @ A)
    return time.perf_counter() - began
