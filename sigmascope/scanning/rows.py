"""Scans of checkpoints, put in order for text, JSON, tables and pages."""

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from statistics import median
from typing import Any

from sigmascope.core import quantities as q
from sigmascope.core.quantities import quantities
from sigmascope.core.records import Matrix, Reading, Scan, ScanPlan

__all__ = [
    "Outlier",
    "by_kind",
    "no_findings",
    "outliers",
    "pairs",
    "plan_columns",
    "scan_columns",
    "seen",
]

# ------------------------------------------------------------------------------
# Readings of a scan by quantity, matrices by kind, what is left out by reason.


SIGNS = (" → ", " = ")  # between two matrices that meet, and two that are alike
Columns = Mapping[str, Mapping[str, Reading]]


def no_findings(scan: Scan) -> str:
    """What is said of a scan of which no rule speaks: nothing was looked at, or nothing is odd."""
    return "No findings." if scan.readings else "No findings, for no matrix was measured."


def by_kind(matrices: Iterable[Matrix]) -> dict[str, list[Matrix]]:
    """Matrices of one kind, in the order of the checkpoint."""
    found: dict[str, list[Matrix]] = {}
    for matrix in matrices:
        found.setdefault(matrix.kind, []).append(matrix)
    return found


def seen(scan: Scan) -> Columns:
    """What was read of each matrix: under the name of a quantity, its readings by site.

    A quantity that was read of one matrix in several forms stands under several names, as
    `"largest angle (leading 8)"`.
    """
    own = {matrix.site for matrix in scan.matrices}
    return _named(r for r in scan.readings if r.site in own)


def pairs(scan: Scan) -> Columns:
    """The same of what was read of two matrices, or of anything else that is not one of them."""
    own = {matrix.site for matrix in scan.matrices}
    return _named(r for r in scan.readings if r.site not in own)


def ends(site: str, known: Mapping[str, int]) -> tuple[int, str, int] | None:
    """The places of the two matrices of `"a → b"`, and the sign between; None for another site.

    Names may hold the sign themselves, so that every place of it is tried.
    """
    for sign in SIGNS:
        words = site.split(sign)
        for i in range(1, len(words)):
            one, other = sign.join(words[:i]), sign.join(words[i:])
            if one in known and other in known:
                return known[one], sign.strip(), known[other]
    return None


def _named(readings: Iterable[Reading]) -> Columns:
    many = tuple(readings)
    counts = Counter(
        (r.quantity, r.site) for r in {(r.quantity, r.site, r.form): r for r in many}.values()
    )
    several = {quantity for (quantity, _), count in counts.items() if count > 1}
    found: dict[str, dict[str, Reading]] = {}
    for r in many:
        name = f"{r.quantity} ({r.form})" if r.quantity in several and r.form else r.quantity
        found.setdefault(name, {})[r.site] = r
    order = [*quantities()]
    place = lambda name: order.index(next(iter(found[name].values())).quantity)
    return {name: found[name] for name in sorted(found, key=place)}


def values(read: Mapping[str, Reading], matrices: Sequence[Matrix]) -> list[float]:
    """The numbers of these matrices, as far as there are any."""
    return [read[m.site].estimate.value for m in matrices if m.site in read]


_HEAD = ("site", "kind", "depth", "rows", "cols", "dtype")
_PLANNED = (*_HEAD, "bytes", "effort", "work", "form")


# ------------------------------------------------------------------------------
# A scan as columns, a row for each matrix.


def scan_columns(scan: Scan) -> dict[str, list[Any]]:
    """What each matrix is, then a column for each quantity that was read; None where it was not."""
    found = _about(scan.matrices, _HEAD)
    for name, read in seen(scan).items():
        found[name] = [
            read[m.site].estimate.value if m.site in read else None for m in scan.matrices
        ]
    return found


def plan_columns(plan: ScanPlan) -> dict[str, list[Any]]:
    """What will be measured."""
    return _about(plan.matrices, _PLANNED)


def _about(matrices: tuple[Matrix, ...], names: tuple[str, ...]) -> dict[str, list[Any]]:
    return {name: [getattr(matrix, name) for matrix in matrices] for name in names}


# ------------------------------------------------------------------------------
# Matrices that are unlike their neighbours of the same kind.


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
            known = [
                m
                for m in matrices
                if m.site in sites and 0 < sites[m.site].estimate.value < math.inf
            ]
            if len(known) < LEAST:
                continue
            known.sort(key=lambda m: m.depth)
            logs = [math.log(sites[m.site].estimate.value) for m in known]
            usual = [_near(logs, i) for i in range(len(logs))]
            apart = [x - u for x, u in zip(logs, usual, strict=True)]
            spread = 1.4826 * max(median(map(abs, apart)), _SPREAD)
            for m, u, d in zip(known, usual, apart, strict=True):
                if abs(d) >= FAR * spread:
                    one = Outlier(m, sites[m.site], math.exp(u), d / spread)
                    found.setdefault(m.site, []).append(one)
    ordered = (sorted(each, key=_size, reverse=True) for each in found.values())
    first = (
        replace(top, also=tuple(q.quantity(each.reading.quantity).name for each in rest))
        for top, *rest in ordered
    )
    return tuple(sorted(first, key=_size, reverse=True))


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
