"""A scan as rules look at it: readings by matrix, matrices by kind."""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import nan
from statistics import median

from sigmascope.records import Finding, Kind, Reading, Severity
from sigmascope.records.scans import Matrix, Scan

SHOWN = 4  # readings that a finding holds, as many as a terminal shows: a fifth of seven more was
# counted as "and 1 more"; how many matrices there are, its sentence says
NAMED = 3  # matrices that its sentence names


@dataclass(frozen=True)
class Facts:
    """A scan, with what rules ask of it.

    Attributes:
        scan: The scan.
    """

    scan: Scan

    @cached_property
    def readings(self) -> Mapping[str, Mapping[str, Reading]]:
        """By quantity and site."""
        found: dict[str, dict[str, Reading]] = defaultdict(dict)
        for r in self.scan.readings:
            found[r.quantity][r.site] = r
        return found

    @cached_property
    def kinds(self) -> Mapping[str, Sequence[Matrix]]:
        """Matrices by what they are in the network."""
        found: dict[str, list[Matrix]] = defaultdict(list)
        for matrix in self.scan.matrices:
            found[matrix.kind].append(matrix)
        return found

    def of(self, name: str) -> list[tuple[Matrix, Reading]]:
        """Matrices of which this quantity was read, with it."""
        known = self.readings.get(name, {})
        return [(m, known[m.site]) for m in self.scan.matrices if m.site in known]

    def value(self, name: str, matrix: Matrix) -> float | None:
        """The number, if it was read."""
        found = self.readings.get(name, {}).get(matrix.site)
        return None if found is None else found.estimate.value

    def usual(
        self, name: str, kind: str, each: Callable[[Matrix], float] = lambda _: 1.0
    ) -> float | None:
        """The median over matrices of one kind, of which there must be three.

        Args:
            name: The quantity.
            kind: What the matrices are in the network.
            each: What the number of a matrix is multiplied by before, for its shape.
        """
        known = ((m, self.value(name, m)) for m in self.kinds[kind])
        values = [v * each(m) for m, v in known if v is not None]
        return median(values) if len(values) >= 3 else None

    def over_usual(
        self, name: str, matrix: Matrix, each: Callable[[Matrix], float] = lambda _: 1.0
    ) -> float:
        """How many times `usual` a matrix is; nan where either is unknown or zero."""
        usual, known = self.usual(name, matrix.kind, each), self.value(name, matrix)
        return known * each(matrix) / usual if usual and known else nan


def told(
    kind: Kind,
    severity: Severity,
    shown: Iterable[tuple[Matrix, Reading]],
    says: str,
    *remedies: str,
) -> Iterator[Finding]:
    """One finding for all matrices of which a rule speaks; the first shown is the worst."""
    found = list(shown)
    if not found:
        return
    sites = [matrix.site for matrix, _ in found]
    more = f" and {len(sites) - NAMED} more" if len(sites) > NAMED else ""
    evidence = tuple(reading for _, reading in found[:SHOWN])
    sentence = f"{', '.join(sites[:NAMED])}{more}: {says}"
    yield kind.finding(sites[0], severity, evidence, sentence, remedies)


def worst(found: Iterable[tuple[Matrix, Reading]]) -> list[tuple[Matrix, Reading]]:
    """The largest readings first."""
    return sorted(found, key=lambda pair: -pair[1].estimate.value)
