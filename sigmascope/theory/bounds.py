"""What a checkable theorem is.

Both sides are estimates, computed from the facts by arithmetic that carries every error along
(`records.Estimate`), so that a verdict is a statement about the two true numbers: HOLDS and
VIOLATED are proved by the intervals, everything between is CONSISTENT. A limit that the measured
side cannot pass, whatever the network, is VACUOUS: it holds, and says nothing. A theorem is
contradicted only where all that makes it true is known to be met; a hypothesis that the facts
cannot decide turns a contradiction into CONSISTENT, with a note. An inapplicable theorem is asked
for no number.
"""

import math
from abc import ABC, ABCMeta, abstractmethod
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, ClassVar, final

from sigmascope.core.records import Assumption, Check, Estimate, Sense, Verdict
from sigmascope.models import Subject

ANY = (-math.inf, math.inf)
SIZE = (0.0, math.inf)  # of norms, squares, and counts


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

    def always(self) -> tuple[float, float]:
        """Between what the measured side lies for every network: a limit out there says nothing."""
        return ANY

    def sides(self) -> tuple[Estimate, Estimate]:
        """Both; overridden where they are computed together."""
        return self.measured(), self.limit()

    @final
    def check(self) -> Check:
        """Compare the two sides; never overridden."""
        assumptions = self.assumptions()
        if any(a.met is False for a in assumptions):
            return self._said(assumptions, Verdict.INAPPLICABLE)
        measured, limit = self.sides()
        small, large = (measured, limit) if self.sense == "at most" else (limit, measured)
        if small.exceeds(large):
            known = all(a.met for a in assumptions)
            verdict = Verdict.VIOLATED if known else Verdict.CONSISTENT
        else:
            least, most = self.always()
            silent = limit.low >= most if self.sense == "at most" else limit.high <= least
            if silent:
                verdict = Verdict.VACUOUS
            else:
                verdict = Verdict.HOLDS if small.high <= large.low else Verdict.CONSISTENT
        return self._said(assumptions, verdict, measured, limit)

    def _said(
        self,
        assumptions: tuple[Assumption, ...],
        verdict: Verdict,
        measured: Estimate | None = None,
        limit: Estimate | None = None,
    ) -> Check:
        words = self.name, self.source, self.statement, self.site
        return Check(*words, measured, limit, self.sense, assumptions, verdict)


@dataclass(frozen=True, slots=True)
class OfFacts(Bound):
    """A theorem whose two sides are formulas of some measured facts: a row of a table."""

    given: Any

    @property
    def site(self) -> str:  # pyright: ignore[reportIncompatibleVariableOverride] (read only)
        """Where the facts were measured."""
        return self.given.site

    @classmethod
    def speaks(cls, given: Any) -> bool:
        """Whether the theorem says anything about these facts."""
        return True

    @classmethod
    def facts(cls, given: Any) -> Iterator["OfFacts"]:
        """The theorem for these facts; nothing is yielded where it says nothing."""
        if cls.speaks(given):
            yield cls(given)


def row(
    name: str,
    source: str,
    statement: str,
    says: str,
    *,
    measured: Callable[[Any], Estimate],
    limit: Callable[[Any], Estimate],
    assuming: Callable[[Any], Iterable[Assumption]] = lambda facts: (),
    speaks: Callable[[Any], bool] = lambda facts: True,
    always: Callable[[Any], tuple[float, float]] = lambda facts: ANY,
    sense: Sense = "at most",
) -> type[OfFacts]:
    """A theorem that differs from its neighbours only in formulas.

    Args:
        name: In the catalogue.
        source: Author, year and number.
        statement: The inequality.
        says: What it says, in a sentence.
        measured: The side that is bounded, of the facts.
        limit: The side that bounds it.
        assuming: The hypotheses.
        speaks: Whether it says anything about these facts.
        always: Between what the bounded side lies for every network.
        sense: As for `Bound`.
    """
    body = {
        "__doc__": says,
        "__slots__": (),
        "name": name,
        "source": source,
        "statement": statement,
        "sense": sense,
        "assumptions": lambda self: tuple(assuming(self.given)),
        "speaks": classmethod(lambda cls, given: speaks(given)),
        "measured": lambda self: measured(self.given),
        "limit": lambda self: limit(self.given),
        "always": lambda self: always(self.given),
    }
    return ABCMeta("".join(map(str.title, name.split("-"))), (OfFacts,), body)


class OfModels(Bound):
    """A theorem about a network and a batch."""

    views: ClassVar[tuple[str, ...]] = ("representations",)  # what its facts are read from

    @classmethod
    @abstractmethod
    def facts(cls, subject: Subject) -> Iterator["OfModels"]:
        """Measure what the theorem needs; nothing is yielded where it says nothing."""
