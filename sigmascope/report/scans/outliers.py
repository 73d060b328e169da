"""Matrices that are unlike their neighbours of the same kind."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from statistics import median

from sigmascope import quantities as q
from sigmascope.records import Reading
from sigmascope.records.scans import Matrix, Scan
from sigmascope.report.scans.groups import by_kind, seen

FAR = 5.0  # robust deviations from which a matrix is named
LEAST = 7  # of a kind, below which their spread is not known
_SIDE = 4  # neighbours on either side by which a trend across depth is followed
_SPREAD = math.log(1.02) / 1.4826  # no deviation of less than 2 % counts as one spread
_COMPARED = (
    q.SPECTRAL_NORM,
    q.FROBENIUS_NORM,
    q.STABLE_RANK,
    q.EFFECTIVE_RANK,
    q.NOISE_LEVEL,
    q.LARGEST_ENTRY,
)


@dataclass(frozen=True, slots=True)
class Outlier:
    """A matrix that sticks out.

    Attributes:
        matrix: Which.
        reading: By what it sticks out the most.
        usual: What its neighbours in depth of the same kind have.
        far: By how many robust standard deviations of the logarithm, with its sign.
        also: Other quantities by which it does, the farthest first.
    """

    matrix: Matrix
    reading: Reading
    usual: float
    far: float
    also: tuple[str, ...] = ()


def outliers(scan: Scan) -> tuple[Outlier, ...]:
    """Those that stick out of their kind, the farthest first; each with its farthest quantity.

    A number is compared, in its logarithm, with a line through its neighbours in depth of the same
    kind, so that what drifts with depth does not stick out; how far it is from there is judged by
    the median of these distances over the kind.

    Source:
        Iglewicz & Hoaglin 1993: 0.6745 (x - median) / MAD.
    """
    found: dict[str, list[Outlier]] = {}
    read = {name: sites for name, sites in seen(scan).items() if name in _COMPARED}
    for matrices in by_kind(scan.matrices).values():
        for sites in read.values():
            for each in _of(matrices, sites):
                found.setdefault(each.matrix.site, []).append(each)
    ordered = (sorted(each, key=_size, reverse=True) for each in found.values())
    first = (
        Outlier(m[0].matrix, m[0].reading, m[0].usual, m[0].far, _others(m[1:])) for m in ordered
    )
    return tuple(sorted(first, key=_size, reverse=True))


def _of(matrices: Sequence[Matrix], sites: Mapping[str, Reading]) -> list[Outlier]:
    known = [m for m in matrices if m.site in sites and 0 < sites[m.site].estimate.value < math.inf]
    if len(known) < LEAST:
        return []
    known.sort(key=lambda m: m.depth)
    logs = [math.log(sites[m.site].estimate.value) for m in known]
    usual = [_near(logs, i) for i in range(len(logs))]
    apart = [x - u for x, u in zip(logs, usual, strict=True)]
    spread = 1.4826 * max(median(map(abs, apart)), _SPREAD)
    return [
        Outlier(m, sites[m.site], math.exp(u), d / spread)
        for m, u, d in zip(known, usual, apart, strict=True)
        if abs(d) >= FAR * spread
    ]


def _near(logs: Sequence[float], i: int) -> float:
    """Where the line through the neighbours on both sides, the value itself left out, meets `i`.

    Source:
        Theil 1950 and Sen 1968: the median of the slopes between any two.
    """
    start = min(max(0, i - _SIDE), max(0, len(logs) - 2 * _SIDE - 1))
    near = [j for j in range(start, min(len(logs), start + 2 * _SIDE + 1)) if j != i]
    slope = median((logs[k] - logs[j]) / (k - j) for j, k in combinations(near, 2))
    return median(logs[j] + slope * (i - j) for j in near)


def _size(outlier: Outlier) -> float:
    return abs(outlier.far)


def _others(rest: Sequence[Outlier]) -> tuple[str, ...]:
    return tuple(q.quantity(each.reading.quantity).name for each in rest)
