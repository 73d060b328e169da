"""What one matrix of a checkpoint is measured to be."""

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from sigmascope.linalg import (
    condition_number,
    effective_rank,
    matrix_rank,
    participation_ratio,
    stable_rank,
)
from sigmascope.linalg.random_matrix import Noise, PowerLaw, RandomSigns, noise, power_law
from sigmascope.linalg.spectra import spectrum
from sigmascope.quantities import SCAN
from sigmascope.records import Estimate, Item, Reading, SiteSpectrum, Skipped, Spectrum
from sigmascope.records.scans import Matrix
from sigmascope.scanning.ends import Ends, ends_of, leading_of, no_ends
from sigmascope.scanning.entries import Entries, entries, sketch
from sigmascope.scanning.tasks import Task

ENERGY = 0.99  # of the squared norm, which the energy rank holds
NOISE = ("noise level", "noise edge", "noise distance", "random baseline", "spikes", "spike energy")
TAIL = ("power-law exponent", "power-law p-value")
WHOLE: dict[str, Callable[[Spectrum], Estimate]] = {  # what all singular values are needed for
    "participation ratio": participation_ratio,
    "effective rank": effective_rank,
    "matrix rank": matrix_rank,
    "condition number": condition_number,
}
SPIKES = 10  # above the noise, fewer of which make no tail


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
    seen = entries(A, task.matrix.dtype)
    found: list[Item] = [*_of_entries(seen, task.matrix)]
    if seen.odd:
        found.append(_skip(task.matrix, "singular values", f"{seen.odd} entries are not finite"))
        return _told(task, found, None), no_ends(seen)
    if seen.energy.value == 0:
        for name in ("spectral norm", "Frobenius norm"):
            found.append(_read(task.matrix, name, Estimate.exactly(0.0)))
        found.append(_skip(task.matrix, "ranks, condition and noise", "it is exactly zero"))
        return _told(task, found, None), no_ends(seen)
    s, ends = _spectrum(task, A, seen)
    found.append(SiteSpectrum(task.matrix.site, SCAN, task.matrix.form, s))
    found += _of_spectrum(s, seen, task.matrix)
    found += _of_noise(s, A, seen, task)
    return _told(task, found, sketch(A) if "copy cosine" in task.wanted else None), ends


def ends_alone(task: Task, A: Float[Tensor, "m n"]) -> Ends:
    """The ends that `measure` gives, without the rest."""
    seen = entries(A, task.matrix.dtype)
    if seen.odd or seen.energy.value == 0:
        return no_ends(seen)
    return ends_of(A, leading_of(task, A, seen), seen)


def _spectrum(task: Task, A: Tensor, seen: Entries) -> tuple[Spectrum, Ends]:
    """All singular values or the leading ones; vectors only where another matrix needs them."""
    full = task.matrix.effort == "full"
    found = leading_of(task, A, seen) if task.paired or not full else None
    ends = ends_of(A, found, seen) if found is not None and task.paired else no_ends(seen)
    if found is None or full:
        return spectrum(A, route="auto" if task.exact else "gram"), ends
    return found.spectrum, ends


def _told(task: Task, found: list[Item], drawn: Tensor | None) -> Measured:
    spectra = [item for item in found if isinstance(item, SiteSpectrum)]
    return Measured(
        task.index,
        tuple(r for r in found if isinstance(r, Reading) and r.quantity in task.wanted),
        spectra[0] if spectra and task.spectra else None,
        tuple(item for item in found if isinstance(item, Skipped)),
        drawn,
    )


def _of_entries(seen: Entries, matrix: Matrix) -> Iterator[Item]:
    """Shares and extremes of the entries; shares that are zero go without saying."""
    for name, count in (
        ("zero entries", seen.zeros),
        ("subnormal entries", seen.subnormal),
        ("saturated entries", seen.saturated),
    ):
        if count:
            yield _read(matrix, name, Estimate.rounded(count / seen.count, ulps=1))
    if seen.odd:
        yield _read(matrix, "non-finite entries", Estimate.exactly(float(seen.odd)))
        return
    for name, sums in (("zero rows", seen.rows), ("zero columns", seen.cols)):
        if zeros := len(sums) - int(sums.count_nonzero()):
            yield _read(matrix, name, Estimate.rounded(zeros / len(sums), ulps=1))
    for name, sums in (("longest row", seen.rows), ("longest column", seen.cols)):
        if (there := sums[sums > 0]).numel():
            ratio = math.sqrt(float(there.max() / there.median()))
            yield _read(matrix, name, Estimate.rounded(ratio, ulps=64).at_least(1.0))
    if seen.rms > 0:
        ratio = max(seen.largest / seen.rms, 1.0)
        yield _read(matrix, "largest entry", Estimate.rounded(ratio, ulps=8).at_least(1.0))
    if seen.spread > 0:
        m, n = matrix.shape
        size = seen.spread * (math.sqrt(m) + math.sqrt(n))
        shift = abs(seen.total / seen.count) * math.sqrt(m * n) / size
        yield _read(matrix, "mean shift", Estimate.rounded(shift, ulps=4 + seen.count**0.5))


def _of_spectrum(s: Spectrum, seen: Entries, matrix: Matrix) -> Iterator[Item]:
    top = Estimate(float(s.sigma[0]), float(s.low[0]), float(s.high[0]), s.how, s.risk)
    yield _read(matrix, "spectral norm", top)
    yield _read(matrix, "Frobenius norm", seen.energy.sqrt())
    if not s.complete:
        ratio = seen.energy / top**2
        yield _read(matrix, "stable rank", ratio.at_least(1.0).at_most(float(min(s.shape))))
        why = f"the {len(s.sigma)} largest of {min(s.shape)} singular values were computed"
        yield _skip(matrix, ", ".join(WHOLE), f"{why}: --exact computes all")
        return
    yield _read(matrix, "stable rank", stable_rank(s))
    for name, of in WHOLE.items():
        yield _read(matrix, name, of(s))
    if min(s.shape) > 1:
        entropy = effective_rank(s).log() / math.log(min(s.shape))
        yield _read(matrix, "spectral entropy", entropy.at_least(0.0).at_most(1.0))
    yield _read(matrix, "energy rank", _energy_rank(s))


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


def _of_noise(s: Spectrum, A: Tensor, seen: Entries, task: Task) -> Iterator[Item]:
    matrix, generator = task.matrix, torch.Generator().manual_seed(task.seed + 1)
    if not task.wanted & {*NOISE, *TAIL}:
        return
    if min(s.shape) < 8:
        yield _skip(matrix, "noise", f"{min(s.shape)} singular values have no bulk")
        return
    longest = (math.sqrt(float(seen.rows.max())), math.sqrt(float(seen.cols.max())))
    signs = RandomSigns(A, rms=seen.rms, longest=longest, largest=seen.largest, generator=generator)
    found = noise(s, energy=seen.energy, signs=signs)
    named = (found.level, found.edge, found.distance, found.baseline, found.spikes, found.energy)
    for name, estimate in zip(NOISE, named, strict=True):
        if estimate is not None:
            yield _read(matrix, name, estimate)
    if not found.whole:
        why = "half of its singular values or more stick out: no bulk is left that could be noise"
        yield _skip(matrix, "noise distance", why)
    if s.complete:
        yield from _of_tail(s, found, task, generator)


def _of_tail(s: Spectrum, found: Noise, task: Task, generator: torch.Generator) -> Iterator[Item]:
    """The exponent of a power law, or why there is none to read off."""
    matrix = task.matrix
    if not task.wanted & {*TAIL}:
        return
    if found.spikes.value < SPIKES:
        count = f"{found.spikes.value:.0f} of {len(s.sigma)} singular values stick out of the noise"
        yield _skip(matrix, TAIL[0], f"{count}: a tail of fewer than {SPIKES} has no exponent")
        return
    fit: PowerLaw | None = power_law(s.sigma.square(), generator=generator)
    if fit is None:
        yield _skip(matrix, TAIL[0], "fewer than 50 singular values are not zero")
        return
    yield _read(matrix, TAIL[1], fit.p)
    if fit.refused:
        yield _skip(matrix, TAIL[0], fit.refused)
    else:
        yield _read(matrix, TAIL[0], fit.exponent)


def _read(matrix: Matrix, name: str, estimate: Estimate) -> Reading:
    return Reading(matrix.site, name, estimate, SCAN, matrix.form)


def _skip(matrix: Matrix, what: str, why: str) -> Skipped:
    return Skipped(matrix.site, what, why)
