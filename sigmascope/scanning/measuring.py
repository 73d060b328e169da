"""What one matrix of a checkpoint is measured to be."""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from sigmascope import quantities as q
from sigmascope.linalg import (
    condition_number,
    effective_rank,
    matrix_rank,
    participation_ratio,
    stable_rank,
    sums,
)
from sigmascope.linalg.krylov import WORKING, tamed
from sigmascope.linalg.spectra import spectrum
from sigmascope.records import Estimate, Item, Reading, SiteSpectrum, Skipped, Spectrum
from sigmascope.records.scans import Matrix
from sigmascope.scanning.ends import Ends, ends_of, leading_of, no_ends
from sigmascope.scanning.entries import Entries, entries, sketch
from sigmascope.scanning.noises import TAIL, of_noise
from sigmascope.scanning.tasks import Task, read, skip
from sigmascope.scanning.units import in_unit

TINY = 2.0**-480  # squares of what is shorter are rounded off
ENERGY = 0.99  # of the squared norm, which the energy rank holds
WHOLE: dict[str, Callable[[Spectrum], Estimate]] = {  # what all singular values are needed for
    q.PARTICIPATION_RATIO: participation_ratio,
    q.EFFECTIVE_RANK: effective_rank,
    q.MATRIX_RANK: matrix_rank,
    q.CONDITION_NUMBER: condition_number,
}


@dataclass(frozen=True, slots=True)
class Measured:
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


def measure(task: Task, A: Float[Tensor, "m n"]) -> tuple[Measured, Ends]:
    """Everything that is wanted of one matrix, and its two ends.

    Args:
        task: What is known of it.
        A: The matrix.
    """
    A = A.to(WORKING.get(A.dtype, torch.float32))  # once: to read it as stored takes as long
    X, power = tamed(A)
    seen = entries(A, task.matrix.dtype, power=power)
    found: list[Item] = [*_of_entries(seen, task.matrix)]
    if seen.odd:
        found.append(skip(task.matrix, "all else", f"{seen.odd} entries are not finite"))
        return told(task, found), no_ends(seen)
    if seen.energy.value == 0:
        norms = (q.SPECTRAL_NORM, q.FROBENIUS_NORM)
        found += [read(task.matrix, name, Estimate.exactly(0.0)) for name in norms]
        found.append(skip(task.matrix, "all else", "it is exactly zero"))
        return told(task, found), no_ends(seen)
    s, ends = _spectrum(task, X, seen)
    found.append(SiteSpectrum(task.matrix.site, q.SCAN, task.matrix.form, s))
    found += _of_spectrum(s, seen, task.matrix)
    found += of_noise(s, X, seen, task)
    drawn = sketch(X) if q.COPY_COSINE in task.wanted else None
    return told(task, [in_unit(item, power) for item in found], drawn), ends


def ends_alone(task: Task, A: Float[Tensor, "m n"]) -> Ends:
    """The ends that `measure` gives, without the rest."""
    X, power = tamed(A)
    seen = entries(A, task.matrix.dtype, power=power)
    if seen.odd or seen.energy.value == 0:
        return no_ends(seen)
    return ends_of(X, leading_of(task, X, seen), seen)


def _spectrum(task: Task, A: Tensor, seen: Entries) -> tuple[Spectrum, Ends]:
    """All singular values or the leading ones; vectors only where another matrix needs them."""
    full = task.matrix.effort == "full"
    found = leading_of(task, A, seen) if task.paired or not full else None
    ends = ends_of(A, found, seen) if found is not None and task.paired else no_ends(seen)
    if found is None or full:
        return spectrum(A, route="auto" if task.exact else "gram"), ends
    return found.spectrum, ends


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


def _of_entries(seen: Entries, matrix: Matrix) -> Iterator[Item]:
    """Shares and extremes of the entries; shares that are zero go without saying."""
    for name, count, of in (
        (q.ZERO_ENTRIES, seen.zeros, seen.count),
        (q.SUBNORMAL_ENTRIES, seen.subnormal, seen.count),
        (q.SATURATED_ENTRIES, seen.saturated, seen.count),
        (q.ZERO_ROWS, seen.empty[0], len(seen.rows)),
        (q.ZERO_COLUMNS, seen.empty[1], len(seen.cols)),
    ):
        if count:
            yield read(matrix, name, Estimate.rounded(count / of, ulps=1).at_most(1.0))
    if seen.odd:
        yield read(matrix, q.NON_FINITE_ENTRIES, Estimate.exactly(float(seen.odd)))
    elif seen.energy.value > 0:
        yield from _of_sums(seen, matrix)


def _of_sums(seen: Entries, matrix: Matrix) -> Iterator[Item]:
    """Extremes of the entries, next to all."""
    for name, squares, empty in (
        (q.LONGEST_ROW, seen.rows, seen.empty[0]),
        (q.LONGEST_COLUMN, seen.cols, seen.empty[1]),
    ):
        # what is there and too small to be squared is shorter than all others
        lengths = squares.sort().values[empty:].sqrt()
        usual = sums.median(lengths)
        if float(lengths[(len(lengths) - 1) // 2]) < TINY:
            yield skip(matrix, name, "half of them are too small to be squared beside the longest")
            continue
        ulps = 64 + 2.0 * seen.count / len(squares)  # of sums of so many
        ratio = Estimate.rounded(float(lengths[-1]) / usual, ulps=ulps)
        yield read(matrix, name, ratio.at_least(1.0))
    peak = seen.largest / (seen.energy / seen.count).sqrt()
    yield read(matrix, q.LARGEST_ENTRY, peak.at_least(1.0))
    if (spread := seen.spread).low <= 0:
        yield skip(matrix, q.MEAN_SHIFT, "its entries do not differ, or by rounding only")
        return
    m, n = matrix.shape
    constant = (seen.mean**2).sqrt() * math.sqrt(m * n)
    yield read(matrix, q.MEAN_SHIFT, constant / (spread * (math.sqrt(m) + math.sqrt(n))))


def _of_spectrum(s: Spectrum, seen: Entries, matrix: Matrix) -> Iterator[Item]:
    top = Estimate(float(s.sigma[0]), float(s.low[0]), float(s.high[0]), s.how, s.risk)
    yield read(matrix, q.SPECTRAL_NORM, top)
    yield read(matrix, q.FROBENIUS_NORM, seen.energy.sqrt())
    if not s.complete:
        ratio = seen.energy / top**2
        yield read(matrix, q.STABLE_RANK, ratio.at_least(1.0).at_most(float(min(s.shape))))
        why = f"the {len(s.sigma)} largest of {min(s.shape)} singular values were computed"
        names = (*WHOLE, q.SPECTRAL_ENTROPY, q.ENERGY_RANK, q.NOISE_DISTANCE, *TAIL)
        yield skip(matrix, ", ".join(names), f"{why}: --exact computes all")
        return
    yield from of_whole(s, matrix)


def of_whole(s: Spectrum, matrix: Matrix) -> Iterator[Item]:
    """What all singular values tell of a matrix that is not zero."""
    yield read(matrix, q.STABLE_RANK, stable_rank(s))
    for name, of in WHOLE.items():
        yield read(matrix, name, of(s))
    if min(s.shape) > 1:
        entropy = effective_rank(s).log() / math.log(min(s.shape))
        yield read(matrix, q.SPECTRAL_ENTROPY, entropy.at_least(0.0).at_most(1.0))
    else:
        yield skip(matrix, q.SPECTRAL_ENTROPY, "one singular value has none")
    yield read(matrix, q.ENERGY_RANK, _energy_rank(s))


def _energy_rank(s: Spectrum) -> Estimate:
    """Fewest leading values that hold their share of the energy."""
    ends = []
    for above, below in ((s.high, s.low), (s.sigma, s.sigma), (s.low, s.high)):
        # at least so many: the leading ones large, what follows small; and the other way round
        rest = below.square().flip(0).cumsum(0).flip(0)
        held = above.square().cumsum(0)
        left = torch.cat([rest[1:], rest.new_zeros(1)])
        enough = held >= ENERGY / (1 - ENERGY) * left
        ends.append(float(int(enough.double().argmax()) + 1))
    low, value, high = ends
    return Estimate(value, min(low, value), max(high, value), s.how, s.risk)
