"""What of one matrix is noise, and whether the tail of its spectrum is a power law.

What costs least is asked first: signs are drawn where a tail is left that could have an exponent.
The invariant: whether noise is wanted as well never changes what is said of the tail, for either
way draws the same signs.
"""

import math
from collections.abc import Callable, Iterator
from functools import partial

import torch
from torch import Tensor

from sigmascope import quantities as q
from sigmascope.linalg.random_matrix import (
    Noise,
    PowerLaw,
    RandomSigns,
    has_spikes,
    noise,
    power_law,
)
from sigmascope.records import Item, Spectrum
from sigmascope.records.scans import Matrix
from sigmascope.scanning.entries import Entries
from sigmascope.scanning.tasks import Task, read, skip

NOISE = (q.NOISE_LEVEL, q.NOISE_EDGE, q.NOISE_DISTANCE, q.RANDOM_BASELINE, q.SPIKES, q.SPIKE_ENERGY)
TAIL = (q.POWER_LAW_EXPONENT, q.POWER_LAW_P_VALUE)
SPIKES = 10  # above the noise, fewer of which make no tail


def of_noise(s: Spectrum, A: Tensor, seen: Entries, task: Task) -> Iterator[Item]:
    """What of a matrix is noise, and the exponent of its tail, as far as they are wanted.

    Args:
        s: Its singular values, all or the leading ones.
        A: The matrix.
        seen: Its entries.
        task: What is known of it.
    """
    matrix = task.matrix
    if not task.wanted & {*NOISE, *TAIL}:
        return
    if min(s.shape) < 8:
        why = f"a matrix with a side of {min(s.shape)} has no bulk of singular values"
        yield skip(matrix, ", ".join((*NOISE, *TAIL)), why)
        return
    signs = partial(_signs, A, seen, task)
    found: Noise | None = None
    if task.wanted & {*NOISE}:
        found = noise(s, energy=seen.energy, signs=signs())
        yield from _of_bulk(s, found, matrix)
    if task.wanted & {*TAIL} and s.complete:
        yield from _of_tail(s, partial(_many, s, seen, signs, found), task)


def _signs(A: Tensor, seen: Entries, task: Task) -> RandomSigns:
    longest = (math.sqrt(float(seen.rows.max())), math.sqrt(float(seen.cols.max())))
    drawn = torch.Generator().manual_seed(task.seed + 1)
    return RandomSigns(A, rms=seen.rms, longest=longest, largest=seen.largest, generator=drawn)


def _many(
    s: Spectrum, seen: Entries, signs: Callable[[], RandomSigns], found: Noise | None
) -> bool:
    """Whether there are spikes enough for a tail."""
    if found is not None:
        return found.spikes.value >= SPIKES
    return has_spikes(s, SPIKES, energy=seen.energy, signs=signs())


def _of_bulk(s: Spectrum, found: Noise, matrix: Matrix) -> Iterator[Item]:
    named = (found.level, found.edge, found.distance, found.baseline, found.spikes, found.energy)
    for name, estimate in zip(NOISE, named, strict=True):
        if estimate is not None:
            yield read(matrix, name, estimate)
    if found.distance is None and s.complete:
        yield skip(matrix, NOISE[2], "below what sticks out no bulk is left that could be noise")


def _of_tail(s: Spectrum, many: Callable[[], bool], task: Task) -> Iterator[Item]:
    """The exponent of a power law, or why there is none: what costs least is asked first."""
    matrix, generator = task.matrix, torch.Generator().manual_seed(task.seed + 2)
    fit: PowerLaw | None = power_law(s.sigma.square(), generator=generator)
    if fit is None:
        yield skip(matrix, TAIL[0], "fewer than 50 singular values are not zero")
        return
    if fit.p is not None:
        yield read(matrix, TAIL[1], fit.p)
    if fit.refused:
        yield skip(matrix, TAIL[0] if fit.p is not None else ", ".join(TAIL), fit.refused)
    elif not many():
        out = f"fewer than {SPIKES} of {len(s.sigma)} singular values stick out of the noise"
        yield skip(matrix, TAIL[0], f"{out}: so short a tail has no exponent")
    else:
        yield read(matrix, TAIL[0], fit.exponent)
