"""What one matrix of a checkpoint is measured to be."""

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cache

import torch
from jaxtyping import Float, Float64
from torch import Tensor

from sigmascope.core import quantities as q
from sigmascope.core.quantities import quantity
from sigmascope.core.records import (
    Brief,
    Estimate,
    Item,
    Matrix,
    Reading,
    SiteSpectrum,
    Skipped,
    Spectrum,
)
from sigmascope.linalg import Measures, dense, measure
from sigmascope.linalg.dense import tamed, times
from sigmascope.linalg.entries import PANEL, Entries, entries
from sigmascope.linalg.krylov import WORKING, Leading, leading
from sigmascope.linalg.measures import NOISE, OF_SPECTRUM, TAIL
from sigmascope.linalg.spectra import block_spectrum, spectrum
from sigmascope.scanning.planning import Task, read, skip

# ------------------------------------------------------------------------------
# Matrices of any scale are measured over a power of two; here numbers come back from it.


def in_unit(item: Item, power: int) -> Item:
    """What was measured of a matrix over `2^power`, of the matrix itself."""
    if power and isinstance(item, SiteSpectrum):
        s = item.spectrum
        low, sigma, high = (times(end, power) for end in (s.low, s.sigma, s.high))
        return replace(item, spectrum=replace(s, sigma=sigma, low=low, high=high))
    if power and isinstance(item, Reading) and quantity(item.quantity).unit == "weight":
        half = power // 2
        scaled = item.estimate * 2.0**half * 2.0 ** (power - half)
        return replace(item, estimate=scaled.at_least(0.0))
    return item


# ------------------------------------------------------------------------------
# A short vector by which copies of a matrix are found.


def sketch(A: Float[Tensor, "m n"], buckets: int = 256) -> Float[Tensor, " k"]:
    """A short vector whose inner products are those of matrices of one shape, up to chance.

    Every place `i` has a sign and a bucket; the entry `(i, j)` gets both signs, and is added up in
    the sum of both buckets. So a matrix and its transpose have one sketch, up to rounding; beside
    what matrices share, the inner product has what one shares with the transpose of the other. The
    cosine of two unrelated matrices is off by about `1 / √buckets`. Equal matrices have equal
    sketches, bit for bit.

    Source:
        Charikar, Chen & Farach-Colton 2002, count sketch; Pham & Pagh 2013 for sums of buckets.
    """
    across, down = _signs(A.shape[1]), _signs(len(A))
    pad = -A.shape[1] % buckets
    found = torch.zeros(buckets, buckets, dtype=torch.float64)  # by row and column
    step = max(1, PANEL // (A.shape[1] + pad))
    for start in range(0, len(A), step):
        block = A[start : start + step].float() * across
        block = torch.nn.functional.pad(block, (0, pad)) if pad else block
        sums = block.view(len(block), -1, buckets).sum(1) * down[start : start + step, None]
        found.index_add_(0, torch.arange(start, start + len(block)) % buckets, sums.double())
    # side by side the places of small matrices would crowd a few buckets
    places = torch.randperm(buckets, generator=torch.Generator().manual_seed(20260101))
    into = (places + places[:, None]) % buckets
    return torch.zeros(buckets).double().index_add_(0, into.flatten(), found.flatten()).float()


def _signs(count: int) -> Float[Tensor, " k"]:
    """The same signs on every machine, over and over."""
    table = _table()
    return table.repeat(-(-count // len(table)))[:count]


@cache
def _table() -> Float[Tensor, " k"]:
    """From a generator of their own."""
    draw = torch.Generator().manual_seed(20260101)
    return (2 * torch.randint(0, 2, (2**20,), generator=draw) - 1).float()


# ------------------------------------------------------------------------------
# A convolution as the operator that it is on a periodic grid, from its kernel alone.


WORK = 2e12  # multiplications that one operator may cost
ENTRIES = 2**26  # complex entries of all blocks of one operator: a GiB
QUANTITIES = (
    q.SPECTRAL_NORM, q.FROBENIUS_NORM, q.STABLE_RANK, q.EFFECTIVE_RANK, q.CONDITION_NUMBER,
)  # fmt: skip


def operator_items(
    matrix: Matrix, kernel: Float[Tensor, "out in *taps"], grid: int
) -> Iterator[Item]:
    """Norms and ranks of the convolution with this kernel, stride 1 and one group.

    Args:
        matrix: What is known of it.
        kernel: As it is stored; one input for each of several outputs is taken as depthwise.
        grid: Points along each side.
    """
    points = grid ** (kernel.ndim - 2)
    rows, cols = kernel.shape[:2]
    blocks = points * rows * cols
    if blocks > ENTRIES or 8.0 * blocks * min(rows, cols) > WORK:
        why = f"on {points} points it takes too much time or memory: ask for a smaller grid"
        yield Skipped(matrix.site, "operator", why)
        return
    found = measure(operator_spectrum(kernel, grid), QUANTITIES)
    for name, estimate in found.numbers.items():
        yield Reading(matrix.site, name, estimate, q.SCAN, "operator")
    for why, names in found.reasons.items():
        yield Skipped(matrix.site, f"{names} of the operator", why)


def operator_spectrum(kernel: Float[Tensor, "out in *taps"], grid: int) -> Spectrum:
    """All singular values of a convolution on a periodic grid.

    On a torus the operator is a block for each frequency, `[out, in]`, the transform of the kernel
    there; its singular values are those of all blocks.

    Args:
        kernel: The kernel; it is wrapped around a grid that is smaller.
        grid: Points along each side.

    Source:
        Sedghi, Gupta & Long 2019, Theorem 6.
    """
    dims = kernel.ndim - 2
    # around the grid taps beyond its end come back to its beginning
    folded = kernel.double()
    for dim in range(2, kernel.ndim):
        before, size = folded, folded.shape[dim]
        folded = before.new_zeros(*before.shape[:dim], grid, *before.shape[dim + 1 :])
        folded.index_add_(dim, torch.arange(size) % grid, before)
    symbol = torch.fft.fftn(folded, dim=tuple(range(2, kernel.ndim)))
    rows, cols = kernel.shape[:2]
    if cols == 1:  # depthwise: each channel by itself
        blocks, cols = symbol.flatten()[:, None, None], rows
    else:
        blocks = symbol.flatten(2).permute(2, 0, 1)
    points = grid**dims
    how = f"fft(periodic {'x'.join([str(grid)] * dims)} grid, stride 1)"
    return block_spectrum(blocks, (grid,) * dims, (points * rows, points * cols), how)


# ------------------------------------------------------------------------------
# What a matrix writes most and reads most: all of it that a layer it meets needs to know.


BRIEF, USUAL = 8, 12  # steps where only two vectors are wanted, and where the values are too


@dataclass(frozen=True, slots=True)
class MapEnds:
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


def ends_of(A: Float[Tensor, "m n"], found: Leading, seen: Entries) -> MapEnds:
    """The two ends, with how far they may be off."""
    vectors = found.left[:, 0].double(), found.right[:, 0].double()
    return MapEnds(*vectors, off(found, A, 1), seen.rows, seen.cols, seen.power, zero=False)


def no_ends(seen: Entries) -> MapEnds:
    """Those of a matrix that is zero, or not finite, and writes nothing that can be compared."""
    zeros = torch.zeros_like(seen.rows), torch.zeros_like(seen.cols)
    return MapEnds(*zeros, 1.0, seen.rows, seen.cols, seen.power, zero=True)


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


OF_MATRIX = frozenset({q.MEAN_SHIFT, *OF_SPECTRUM, *NOISE, *TAIL})
TINY = 2.0**-480  # squares of what is shorter are rounded off


@dataclass(frozen=True, slots=True, repr=False)
class Measured(Brief):
    """What was measured of one matrix.

    Attributes:
        index: Its place in the plan.
        readings: Its numbers.
        spectrum: Its singular values, if they were to be kept.
        skipped: What was not measured.
        sketch: A short vector by which copies are found; None where it is not finite.
        failed: Whether it could not be measured for a reason that may pass.
    """

    index: int
    readings: tuple[Reading, ...]
    spectrum: SiteSpectrum | None
    skipped: tuple[Skipped, ...]
    sketch: Float[Tensor, " k"] | None
    failed: bool = False


def measure_matrix(task: Task, A: Float[Tensor, "m n"]) -> tuple[Measured, MapEnds]:
    """Everything that is wanted of one matrix, and its two ends.

    Args:
        task: What is known of it.
        A: The matrix.
    """
    A = A.to(WORKING.get(A.dtype, torch.float32))  # once: to read it as stored takes as long
    X, power = tamed(A)
    seen = entries(A, task.matrix.dtype, power=power)
    # shares and extremes of the entries; shares that are zero go without saying
    found: list[Item] = [
        read(task.matrix, name, Estimate.rounded(count / of, ulps=1).at_most(1.0))
        for name, count, of in (
            (q.ZERO_ENTRIES, seen.zeros, seen.count),
            (q.SUBNORMAL_ENTRIES, seen.subnormal, seen.count),
            (q.SATURATED_ENTRIES, seen.saturated, seen.count),
            (q.ZERO_ROWS, seen.empty[0], len(seen.rows)),
            (q.ZERO_COLUMNS, seen.empty[1], len(seen.cols)),
        )
        if count
    ]
    if seen.odd:
        odd = Estimate.exactly(float(seen.odd))
        found.append(read(task.matrix, q.NON_FINITE_ENTRIES, odd))
        found.append(skip(task.matrix, "all else", f"{seen.odd} entries are not finite"))
        return told(task, found), no_ends(seen)
    if seen.energy.value == 0:
        norms = (q.SPECTRAL_NORM, q.FROBENIUS_NORM)
        found += [read(task.matrix, name, Estimate.exactly(0.0)) for name in norms]
        found.append(skip(task.matrix, "all else", "it is exactly zero"))
        return told(task, found), no_ends(seen)
    for name, squares, empty in (
        (q.LONGEST_ROW, seen.rows, seen.empty[0]),
        (q.LONGEST_COLUMN, seen.cols, seen.empty[1]),
    ):
        # what is there and too small to be squared is shorter than all others
        lengths = squares.sort().values[empty:].sqrt()
        usual = dense.median(lengths)
        if float(lengths[(len(lengths) - 1) // 2]) < TINY:
            why = "half of them are too small to be squared beside the longest"
            found.append(skip(task.matrix, name, why))
            continue
        ulps = 64 + 2.0 * seen.count / len(squares)  # of sums of so many
        ratio = Estimate.rounded(float(lengths[-1]) / usual, ulps=ulps)
        found.append(read(task.matrix, name, ratio.at_least(1.0)))
    peak = seen.largest / (seen.energy / seen.count).sqrt()
    found.append(read(task.matrix, q.LARGEST_ENTRY, peak.at_least(1.0)))
    # all singular values or the leading ones; vectors only where another matrix needs them
    full = task.matrix.effort == "full"
    some = leading_of(task, X, seen) if task.paired or not full else None
    ends = ends_of(X, some, seen) if some is not None and task.paired else no_ends(seen)
    if some is None or full:
        s = spectrum(X, route="auto" if task.exact else "gram")
    else:
        s = some.spectrum
    found.append(SiteSpectrum(task.matrix.site, q.SCAN, task.matrix.form, s))
    signs, samples = (torch.Generator().manual_seed(task.seed + i) for i in (1, 2))
    asked = task.wanted & OF_MATRIX
    numbers = measure(X, asked, s=s, entries=seen, generator=signs, samples=samples)
    found += items(numbers, task.matrix)
    short = sketch(X) if q.COPY_COSINE in task.wanted else None
    return told(task, [in_unit(item, power) for item in found], short), ends


def items(found: Measures, matrix: Matrix) -> Iterator[Item]:
    """The numbers of a matrix, and what has none: each reason once."""
    for name, estimate in found.numbers.items():
        yield read(matrix, name, estimate)
    for why, names in found.reasons.items():
        yield skip(
            matrix, names, why if found.spectrum.complete else f"{why}: --exact computes all"
        )


def ends_alone(task: Task, A: Float[Tensor, "m n"]) -> MapEnds:
    """The ends that `measure` gives, without the rest."""
    X, power = tamed(A)
    seen = entries(A, task.matrix.dtype, power=power)
    if seen.odd or seen.energy.value == 0:
        return no_ends(seen)
    return ends_of(X, leading_of(task, X, seen), seen)


def told(task: Task, found: list[Item], drawn: Tensor | None = None) -> Measured:
    """What is wanted of what was found."""
    spectra = (item for item in found if isinstance(item, SiteSpectrum) and task.spectra)
    return Measured(
        task.index,
        tuple(r for r in found if isinstance(r, Reading) and r.quantity in task.wanted),
        next(spectra, None),
        tuple(item for item in found if isinstance(item, Skipped)),
        drawn,
    )
