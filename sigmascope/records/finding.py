"""What a finding is."""

from dataclasses import dataclass
from typing import Literal

from sigmascope.records.profile import Reading
from sigmascope.records.shown import Shown

Severity = Literal["error", "warning", "note"]


@dataclass(frozen=True, slots=True, repr=False)
class Finding(Shown):
    """Something worth a reader's attention, with the readings that show it.

    Attributes:
        name: The rule that spoke, e.g. `"rank-collapse"`.
        site: Where it starts.
        severity: `"error"` stops training, `"warning"` slows or risks it, `"note"` is for
            information.
        evidence: The readings that show it.
        says: One plain sentence.
        source: Author, year and number of what it rests on.
        remedies: What to do, one sentence each: first what no remedy can do for the user, then
            the remedies that `sigmascope remedy` has for it.
        follows: Name of the finding that this one follows from; empty for a cause.
    """

    name: str
    site: str
    severity: Severity
    evidence: tuple[Reading, ...]
    says: str
    source: str
    remedies: tuple[str, ...] = ()
    follows: str = ""
