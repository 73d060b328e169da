"""A theorem compared with facts: what came of it."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Literal

from sigmascope.records.estimate import Estimate
from sigmascope.records.shown import Shown

Sense = Literal["at most", "at least"]


class Verdict(StrEnum):
    """Outcome of comparing the measured side with the side that bounds it."""

    HOLDS = "holds"  # proved by these intervals
    CONSISTENT = "consistent"  # the intervals overlap, or a hypothesis cannot be decided
    VACUOUS = "vacuous"  # the limit is one that no number passes, whatever the network
    VIOLATED = "violated"  # contradicted although all hypotheses are met: a bug
    INAPPLICABLE = "inapplicable"  # an assumption is known to fail


@dataclass(frozen=True, slots=True)
class Assumption:
    """One hypothesis of a theorem; `met` is None where these facts cannot decide it."""

    says: str
    met: bool | None


@dataclass(frozen=True, slots=True, repr=False)
class Check(Shown):
    """The outcome of checking one theorem once.

    Attributes:
        theorem: Its name in the catalogue.
        source: Author, year and number.
        statement: The inequality.
        site: The layer whose facts were compared.
        measured: The side that the theorem bounds; None where it does not apply.
        limit: The side that bounds it; None where it does not apply.
        sense: Whether the measured side is `"at most"` or `"at least"` the limit.
        assumptions: The hypotheses, each with whether it is met.
        verdict: What follows.
    """

    theorem: str
    source: str
    statement: str
    site: str
    measured: Estimate | None
    limit: Estimate | None
    sense: Sense
    assumptions: tuple[Assumption, ...]
    verdict: Verdict

    @property
    def note(self) -> str:
        """Why a contradiction is none, or why the limit says nothing; else empty."""
        if self.verdict == Verdict.VACUOUS:
            return "the limit says nothing: the other side is never past it"
        if self.verdict != Verdict.CONSISTENT or not _smaller_exceeds(self):
            return ""
        unknown = "; ".join(a.says for a in self.assumptions if a.met is None)
        return f"contradicted, but it cannot be told whether {unknown}"


def _smaller_exceeds(check: Check) -> bool:
    """Whether the side that should be the smaller one is proved to be the larger."""
    assert check.measured is not None
    assert check.limit is not None
    at_most = check.sense == "at most"
    small, large = (check.measured, check.limit) if at_most else (check.limit, check.measured)
    return small.exceeds(large)
