"""What a checkable theorem is."""

from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import ClassVar, Literal, final

from sigmascope.linalg import Estimate
from sigmascope.networks import ChainStatistics
from sigmascope.probes import Subject

Sense = Literal["at most", "at least"]


class Verdict(StrEnum):
    """Outcome of comparing the measured side with the side that bounds it."""

    HOLDS = "holds"  # proved by these intervals
    CONSISTENT = "consistent"  # the intervals overlap: tight, or measured too coarsely
    VIOLATED = "violated"  # contradicted: a bug, or a false tacit assumption
    INAPPLICABLE = "inapplicable"  # an assumption is known to fail


@dataclass(frozen=True, slots=True)
class Assumption:
    """One hypothesis of a theorem; `met` is None where these facts cannot decide it."""

    says: str
    met: bool | None


@dataclass(frozen=True, slots=True)
class Check:
    """The outcome of checking one theorem once.

    Attributes:
        theorem: Its name in the catalogue.
        source: Author, year and number.
        statement: The inequality.
        site: The layer whose facts were compared.
        measured: The side that the theorem bounds.
        limit: The side that bounds it.
        sense: Whether the measured side is `"at most"` or `"at least"` the limit.
        assumptions: The hypotheses, each with whether it is met.
        verdict: What follows.
    """

    theorem: str
    source: str
    statement: str
    site: str
    measured: Estimate
    limit: Estimate
    sense: Sense
    assumptions: tuple[Assumption, ...]
    verdict: Verdict


class Bound(ABC):
    """A theorem `measured <= limit` (or `>=`), holding the facts both sides are computed from."""

    name: ClassVar[str]
    source: ClassVar[str]
    statement: ClassVar[str]
    sense: ClassVar[Sense] = "at most"
    site: str

    @abstractmethod
    def assumptions(self) -> tuple[Assumption, ...]:
        """The hypotheses, each with whether these facts meet it."""

    @abstractmethod
    def measured(self) -> Estimate:
        """The side the theorem bounds."""

    @abstractmethod
    def limit(self) -> Estimate:
        """The side that bounds it."""

    @final
    def check(self) -> Check:
        """Compare the two sides; never overridden."""
        assumptions, measured, limit = self.assumptions(), self.measured(), self.limit()
        small, large = (measured, limit) if self.sense == "at most" else (limit, measured)
        if any(a.met is False for a in assumptions):
            verdict = Verdict.INAPPLICABLE
        elif small.low > large.high:
            verdict = Verdict.VIOLATED
        elif small.high <= large.low:
            verdict = Verdict.HOLDS
        else:
            verdict = Verdict.CONSISTENT
        return Check(
            self.name,
            self.source,
            self.statement,
            self.site,
            measured,
            limit,
            self.sense,
            assumptions,
            verdict,
        )


class OfModels(Bound):
    """A theorem about a network and a batch."""

    views: ClassVar[tuple[str, ...]] = ("representations",)  # what its facts are read from

    @classmethod
    @abstractmethod
    def facts(cls, subject: Subject) -> Iterator["OfModels"]:
        """Measure what the theorem needs; nothing is yielded where it says nothing."""


@dataclass(frozen=True, slots=True)
class OfChains(Bound):
    """A theorem about time averages of a normalised chain of random layers."""

    chain: ChainStatistics
    site: str = "chain"

    @classmethod
    def speaks(cls, chain: ChainStatistics) -> bool:
        """Whether the theorem says anything about this chain."""
        return True

    @classmethod
    @final
    def facts(cls, chain: ChainStatistics) -> Iterator["OfChains"]:
        """The theorem for this chain; nothing is yielded where it says nothing."""
        if cls.speaks(chain):
            yield cls(chain)
