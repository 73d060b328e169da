"""What one matrix is measured to be: its norms and ranks, what of it is noise, and its tail.

Profiles, scans and watches ask here, each for the quantities that it wants and with what it has at
hand. The invariant: a quantity is one formula, whoever asks, and what else is asked for changes
nothing of it.
"""

import math
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from sigmascope.core import quantities as q
from sigmascope.core.guard import Refusal
from sigmascope.core.records import Estimate, Spectrum
from sigmascope.linalg import dense
from sigmascope.linalg.entries import Entries
from sigmascope.linalg.norms import frobenius_norm, spectral_norm
from sigmascope.linalg.random_matrix import FEWEST, RandomSigns, has_spikes, noise, power_law
from sigmascope.linalg.ranks import (
    condition_number,
    effective_rank,
    energy_rank,
    matrix_rank,
    participation_ratio,
    soft_rank,
    spectral_entropy,
    stable_rank,
)
from sigmascope.linalg.spectra import Route, spectrum

__all__ = ["NOISE", "OF_SPECTRUM", "TAIL", "Measures", "measure"]

OF_SPECTRUM: Mapping[str, Callable[[Spectrum], Estimate]] = {
    q.SPECTRAL_NORM: spectral_norm,
    q.FROBENIUS_NORM: frobenius_norm,
    q.STABLE_RANK: stable_rank,
    q.PARTICIPATION_RATIO: participation_ratio,
    q.EFFECTIVE_RANK: effective_rank,
    q.MATRIX_RANK: matrix_rank,
    q.SOFT_RANK: soft_rank,
    q.CONDITION_NUMBER: condition_number,
    q.SPECTRAL_ENTROPY: spectral_entropy,
    q.ENERGY_RANK: energy_rank,
}
NOISE = (q.NOISE_LEVEL, q.NOISE_EDGE, q.NOISE_DISTANCE, q.RANDOM_BASELINE, q.SPIKES, q.SPIKE_ENERGY)
TAIL = (q.POWER_LAW_EXPONENT, q.POWER_LAW_P_VALUE)
OF_ZERO = {q.SPECTRAL_NORM, q.FROBENIUS_NORM, q.MATRIX_RANK, q.SOFT_RANK}  # which are 0 there
SPIKES = 10  # above the noise, fewer of which make no tail
Answers = dict[str, Estimate | str]  # a number, or the reason why there is none


@dataclass(frozen=True, slots=True)
class Measures:
    """What was measured of one matrix.

    Attributes:
        spectrum: Its singular values, all or the leading ones.
        numbers: By quantity, in the unit of the entries.
        undefined: What was asked for and has no number, with the reason.
    """

    spectrum: Spectrum
    numbers: Mapping[str, Estimate]
    undefined: Mapping[str, str]

    @property
    def reasons(self) -> Mapping[str, str]:
        """Each reason once, with the names of what has no number for it."""
        names: dict[str, list[str]] = {}
        for name, why in self.undefined.items():
            names.setdefault(why, []).append(name)
        return {why: ", ".join(some) for why, some in names.items()}


def measure(
    A: Float[Tensor, "m n"] | Spectrum,
    wanted: Collection[str],
    *,
    s: Spectrum | None = None,
    route: Route = "auto",
    entries: Entries | None = None,
    generator: torch.Generator | None = None,
    samples: torch.Generator | None = None,
) -> Measures:
    """Measure what is wanted of one matrix; what is at hand is not computed again.

    Args:
        A: The matrix; or its singular values, which tell neither mean nor noise.
        wanted: Names of quantities: those of `OF_SPECTRUM`, `NOISE` and `TAIL`, and the mean shift.
        s: Its singular values, all or the leading ones, if they are known.
        route: By which they are computed if they are not, as for `spectrum`.
        entries: What its entries say, in the unit of `A`, if they were read.
        generator: Source of the random signs of noise, and of the start of the free route.
        samples: Source of the samples to which a tail is compared.

    Returns:
        Of each that is wanted a number, in the unit of the entries or without one, or the reason
        why it has none: of the leading values alone ranks are unknown, a zero matrix has norms.

    Raises:
        TypeError: If a tensor `A` is not real floating point.
        Refusal: If a name is of nothing that is measured here, a tensor `A` is empty, not a
            matrix or not finite, or what needs its entries is wanted of singular values.

    Source:
        That of each quantity, as `core.quantities` has it: Golub & Kahan 1965 of singular values,
        Johnstone 2001 of noise, Clauset, Shalizi & Newman 2009 of tails.

    Example:
        >>> found = measure(torch.tensor([[3.0, 0.0], [0.0, 4.0]]), ["stable rank"])
        >>> round(found.numbers["stable rank"].value, 9)
        1.5625
    """
    known = (q.MEAN_SHIFT, *OF_SPECTRUM, *NOISE, *TAIL)
    if odd := sorted({*wanted} - {*known}):
        raise Refusal(
            f"What is wanted of a matrix must be among {', '.join(known)}; got {odd[0]!r}. "
            "Leave it out: it is measured of something else."
        )
    matrix = A if isinstance(A, Tensor) else None
    if s is None:
        s = A if isinstance(A, Spectrum) else spectrum(A, route=route, generator=generator)
    asked = [name for name in known if name in wanted]
    found: Answers = {}
    if not float(s.sigma[0]) > 0:
        found = dict.fromkeys(asked, "it is exactly zero")
        asked = [name for name in asked if name in OF_ZERO]
    of_entries = [name for name in asked if name not in OF_SPECTRUM]
    if matrix is None and of_entries:
        raise Refusal(
            f"The {of_entries[0]} needs the entries of a matrix, got its singular values alone. "
            "Pass the matrix, and these as `s`."
        )
    if matrix is not None and q.MEAN_SHIFT in asked:
        # The singular value of the constant part over the largest that the spread would give: a
        # matrix `[m, n]` of equal entries has the singular value `|mean| √(mn)`; independent
        # entries of spread s and mean zero stay below `s (√m + √n)` (Bai & Yin 1993).
        m, n = matrix.shape
        if entries is not None:
            mean, spread = entries.mean, entries.spread
        else:
            mean, spread = dense.mean_and_spread(dense.tamed(matrix)[0])
        found[q.MEAN_SHIFT] = "its entries do not differ, or by rounding only"
        if spread.low > 0:
            constant = (mean**2).sqrt() * math.sqrt(m * n)
            found[q.MEAN_SHIFT] = constant / (spread * (math.sqrt(m) + math.sqrt(n)))
    found |= {n: _of_spectrum(n, s, matrix, entries) for n in asked if n in OF_SPECTRUM}
    if matrix is not None and not {*NOISE, *TAIL}.isdisjoint(asked):
        found |= _of_laws(asked, s, matrix, entries, generator, samples)
    told = [(name, answer) for name, answer in found.items() if name in wanted]
    return Measures(
        s,
        {name: answer for name, answer in told if isinstance(answer, Estimate)},
        {name: answer for name, answer in told if isinstance(answer, str)},
    )


def _of_spectrum(
    name: str, s: Spectrum, matrix: Tensor | None, entries: Entries | None
) -> Estimate | str:
    """One quantity; where values are missing, entries know the sum of the squares of all."""
    if name == q.FROBENIUS_NORM and entries is not None:
        return entries.energy.sqrt()
    if name == q.SPECTRAL_ENTROPY and min(s.shape) == 1:
        return "one singular value has none"
    if s.complete or name == q.SPECTRAL_NORM:
        return OF_SPECTRUM[name](s)
    if name == q.FROBENIUS_NORM and matrix is not None:
        return frobenius_norm(matrix)
    if name == q.STABLE_RANK and matrix is not None:
        top = spectral_norm(s)
        squares = (
            (frobenius_norm(matrix) / top) ** 2 if entries is None else entries.energy / top**2
        )
        return squares.at_least(1.0).at_most(float(min(s.shape)))
    return leading_alone(s)


def leading_alone(s: Spectrum) -> str:
    """Why what takes all singular values is unknown."""
    return f"the {len(s.sigma)} largest of {min(s.shape)} singular values were computed"


# ------------------------------------------------------------------------------
# What of a matrix is noise, and whether the tail of its spectrum is a power law.
#
# What costs least is asked first: signs are drawn where a tail is left that could have an exponent.
# The invariant: whether noise is wanted as well never changes what is said of the tail, for either
# way draws the same signs.


def _of_laws(
    asked: Collection[str],
    s: Spectrum,
    A: Tensor,
    entries: Entries | None,
    generator: torch.Generator | None,
    samples: torch.Generator | None,
) -> Answers:
    """Noise, if it is asked for, and then the tail, if that is."""
    if min(s.shape) < FEWEST:
        why = f"a matrix with a side of {min(s.shape)} has no bulk of singular values"
        return dict.fromkeys((*NOISE, *TAIL), why)
    if entries is not None:
        energy, signs = entries.energy, entries.signs(A, generator)
    else:
        energy = Estimate.sum_of_squares(A.double())
        rms = math.sqrt(energy.value / A.numel())
        signs = RandomSigns(A, rms=rms, generator=generator)
    found: Answers = {}
    spikes: Callable[[], bool] = lambda: has_spikes(s, SPIKES, energy=energy, signs=signs)
    if not {*NOISE}.isdisjoint(asked):
        told = noise(s, energy=energy, signs=signs)
        spikes = lambda: told.spikes.value >= SPIKES
        bare = "below what sticks out no bulk is left that could be noise"
        bare = bare if s.complete else leading_alone(s)
        found = {
            q.NOISE_LEVEL: told.level,
            q.NOISE_EDGE: told.edge,
            q.NOISE_DISTANCE: bare if told.distance is None else told.distance,
            q.RANDOM_BASELINE: told.baseline,
            q.SPIKES: told.spikes,
            q.SPIKE_ENERGY: told.energy,
        }
    if {*TAIL}.isdisjoint(asked):
        return found
    # the exponent of a power law and how well it fits, or why there is none
    if not s.complete:
        return found | dict.fromkeys(TAIL, leading_alone(s))
    fit = power_law(s.sigma.square(), generator=samples)
    if fit is None:
        return found | {q.POWER_LAW_EXPONENT: "fewer than 50 singular values are not zero"}
    found |= {} if fit.p is None else {q.POWER_LAW_P_VALUE: fit.p}
    if fit.refused:
        return found | dict.fromkeys(TAIL if fit.p is None else TAIL[:1], fit.refused)
    if spikes():
        return found | {q.POWER_LAW_EXPONENT: fit.exponent}
    few = f"fewer than {SPIKES} of {len(s.sigma)} singular values stick out of the noise"
    return found | {q.POWER_LAW_EXPONENT: f"{few}: so short a tail has no exponent"}
