"""What of a spectrum is noise: its level, its edge, and what sticks out.

The idea: take off the largest values one by one, as long as each is larger than noise of what is
left would have it with a chance of some thousandths. The invariant: the first step alone decides
whether anything is flagged, so that its chance is the rate of false alarms of the whole; the later
steps are made on what is left of matrix, energy and entries after the values before them.
"""

import math
from dataclasses import dataclass
from functools import cache

from jaxtyping import Float64
from torch import Tensor

from sigmascope.linalg.random_matrix.laws import MarchenkoPastur
from sigmascope.linalg.random_matrix.left import Left
from sigmascope.linalg.random_matrix.signs import MOST, RandomSigns, wishart_edge
from sigmascope.linalg.random_matrix.tracy_widom import TracyWidom
from sigmascope.records import Estimate, Spectrum

FALSE_ALARMS = 0.01  # what is promised of pure noise; the quantile leaves room for its finite size
QUANTILE = 0.998
FEWEST = 8  # of the smaller side: below, there is no bulk to speak of
ROUNDS = 4  # of taking off what surely sticks out and drawing signs for the rest
SUMMED = 1 + 1e-5  # times what single precision leaves: more than its rounding takes from the sum
CLEAR = 1.5  # times the edge: no noise whose signs were drawn once comes near


@dataclass(frozen=True, slots=True)
class Noise:
    """What of a matrix is noise.

    Attributes:
        level: Standard deviation of the entries of what is left without the spikes.
        edge: The largest singular value that noise of this level has, in the unit of the entries.
        spikes: How many singular values are larger.
        energy: Their share of the squared norm.
        distance: Between the bulk and the law of Marchenko and Pastur (Kolmogorov); None where the
            bulk is not known.
        baseline: Largest singular value of the same entries with random signs.
        whole: Whether a bulk is left: fewer than half of the values are spikes.
    """

    level: Estimate
    edge: Estimate
    spikes: Estimate
    energy: Estimate
    distance: Estimate | None
    baseline: Estimate
    whole: bool


def noise(s: Spectrum, *, energy: Estimate, signs: RandomSigns) -> Noise:
    """Level and edge of the noise in a matrix, and the spikes above it.

    Of independent entries, of any law that is symmetric about zero or has light tails, something is
    flagged with a chance of a hundredth at most.

    Args:
        s: Its singular values, all or the leading ones.
        energy: `‖A‖_F²`.
        signs: Of the matrix.

    Raises:
        ValueError: If the smaller side is below 8, or the matrix is zero.

    Source:
        Johnstone 2001; Ma 2012; Hong, Sheng & Dobriban 2020.
    """
    left, found, excess = _found(s, energy, signs)
    return _told(s, energy, left, found, signs.baseline, excess)


def has_spikes(s: Spectrum, count: int, *, energy: Estimate, signs: RandomSigns) -> bool:
    """Whether so many singular values stick out of the noise: `noise(...).spikes` is that large.

    Signs are drawn only until that is known, in the order of `noise`.

    Args:
        s: Its singular values, all or the leading ones.
        count: Of spikes.
        energy: `‖A‖_F²`.
        signs: Of the matrix, from which nothing was drawn yet.

    Raises:
        ValueError: As of `noise`.

    Source:
        Johnstone 2001; Ma 2012; Hong, Sheng & Dobriban 2020.
    """
    return _found(s, energy, signs, count)[1][0] >= count


def _found(
    s: Spectrum, energy: Estimate, signs: RandomSigns, enough: float = math.inf
) -> tuple[Left, tuple[int, float, float], float]:
    """What is left, how many stick out of it with level and edge, and the excess of the signs.

    Args:
        s: Singular values.
        energy: Of the matrix.
        signs: Of it.
        enough: Spikes, of which no more are counted where there are as many.
    """
    if min(s.shape) < FEWEST or energy.value <= 0:
        raise ValueError(
            f"A non-zero matrix of at least {FEWEST} rows and columns was expected, got "
            f"{tuple(s.shape)} with squared norm {energy.value:g}: it has no bulk of noise."
        )
    left = Left(s, 0, energy.high)
    found, excess, start = _peeled(s, left, 1.0), 1.0, 0
    for _ in range(ROUNDS if found[0] else 0):
        rest = signs.without(start) if start else signs
        if start and not s.complete:
            left = Left(s, min(start, MOST), rest.energy * SUMMED)
        found, excess = _against(s, left, rest, start)
        del rest  # as large as the matrix: the next is made without it
        if found[0] == start or (excess == 1 and left.sharp(found[0])):
            break
        start = _surely(s, left, excess, start)
        if start >= enough:  # what follows counts these as well
            break
    return left, found, excess


def _against(
    s: Spectrum, left: Left, signs: RandomSigns, start: int
) -> tuple[tuple[int, float, float], float]:
    """How many values stick out, and by how much random signs exceed Gaussians.

    The first `start` values do, and are not among the entries that have the signs.
    """
    excess = signs.excess
    found = _peeled(s, left, excess, start)
    if found[0] > start and float(s.sigma[start]) < CLEAR * found[2]:
        excess = max(excess, signs.sure_excess())  # noise may look like this: ask more
        found = _peeled(s, left, excess, start)
    return found, excess


def _surely(s: Spectrum, left: Left, excess: float, start: int) -> int:
    """How many stick out even if what exceeds Gaussians is all in the rest; one more at least.

    Spikes that are spread evenly add to the entries what Gaussians would: the signs of the whole
    then exceed Gaussians by less than those of the noise in it. The squares of edges add up.
    """
    whole = left.without(start)
    k = start + 1
    while k < min(len(s.sigma), min(s.shape) // 2) and float(s.low[k]) > 0:
        rest = left.without(k)
        own = (excess**2 - 1) * whole / rest if rest > 0 else 0.0
        if float(s.sigma[k]) <= _edge(s.shape, k, rest, math.sqrt(1 + own))[1]:
            break
        k += 1
    return k


@cache
def _quantile() -> float:
    return TracyWidom().quantile(QUANTILE)


def _peeled(s: Spectrum, left: Left, excess: float, start: int = 0) -> tuple[int, float, float]:
    """How many values stick out, `start` at least, and level and edge of what is left."""
    last = min(len(s.sigma), min(s.shape) // 2)
    k, (level, edge) = start, _edge(s.shape, start, left.without(start), excess)
    while k < last and float(s.low[k]) > 0 and float(s.sigma[k]) > edge:
        k += 1
        level, edge = _edge(s.shape, k, left.without(k), excess)
    return k, level, edge


def _edge(shape: tuple[int, int], k: int, rest: float, excess: float) -> tuple[float, float]:
    m, n = shape[0] - k, shape[1] - k
    level = math.sqrt(rest / (m * n))
    law = wishart_edge(m, n)
    return level, level * excess * math.sqrt(law.centre + law.scale * _quantile())


def _told(
    s: Spectrum,
    energy: Estimate,
    left: Left,
    found: tuple[int, float, float],
    baseline: Estimate,
    excess: float,
) -> Noise:
    count, level, edge = found
    how = f"{s.how}, Tracy-Widom {QUANTILE:g}"
    how += f" x {excess:.3g} for the entries" if excess > 1 else ""
    rest = _rest_ends(s, energy, left, count)
    entries = (s.shape[0] - count) * (s.shape[1] - count)
    low, high = (math.sqrt(max(end, 0.0) / entries) for end in rest)
    whole = count < min(s.shape) // 2
    return Noise(
        Estimate(level, min(low, level), max(high, level), s.how, s.risk),
        Estimate.exactly(edge, how=how),
        _count(s, rest[1], count, edge, how),
        _share(s, energy, count),
        _distance(s, count, level) if s.complete and whole and level > 0 else None,
        baseline,
        whole,
    )


def _rest_ends(s: Spectrum, energy: Estimate, left: Left, count: int) -> tuple[float, float]:
    if s.complete:
        return float(s.low[count:].square().sum()), float(s.high[count:].square().sum())
    return energy.low - float(s.high[:count].square().sum()), left.without(count)


def _count(s: Spectrum, rest: float, count: int, edge: float, how: str) -> Estimate:
    """Between what surely exceeds the edge and what may; of unknown values their energy tells."""
    low, high = int((s.low > edge).sum()), int((s.high > edge).sum())
    if not s.complete:
        unknown = rest / edge / edge if edge > 0 else math.inf
        high = int(min(float(min(s.shape)), count + max(unknown, 0.0)))
        how += f", of {len(s.sigma)} leading values" + (" all" if count == len(s.sigma) else "")
    return Estimate(float(count), float(min(low, count)), float(max(high, count)), how, s.risk)


def _share(s: Spectrum, energy: Estimate, count: int) -> Estimate:
    ends = [float(end[:count].square().sum()) for end in (s.low, s.sigma, s.high)]
    value = min(ends[1] / energy.value, 1.0)
    low, high = ends[0] / energy.high, ends[2] / energy.low
    return Estimate(value, min(low, value), max(min(high, 1.0), value), s.how, s.risk)


def _distance(s: Spectrum, count: int, level: float) -> Estimate:
    """Of the bulk, from the law of its own level; rounding moves it by a step of it."""
    m, n = s.shape[0] - count, s.shape[1] - count
    short, long = min(m, n), max(m, n)
    law = MarchenkoPastur(short / long)
    bulk: Float64[Tensor, " r"] = (s.sigma[count:] / (level * math.sqrt(long))).square()
    value = law.distance(bulk[:short])
    step = 1 / short
    return Estimate(value, max(value - step, 0.0), min(value + step, 1.0), s.how)
