"""What a rule says of a look."""

from abc import ABC, abstractmethod
from dataclasses import dataclass

from sigmascope.records import Severity
from sigmascope.watching.alarms.tracks import Tracks

Shown = tuple[str, str, str]  # quantity, site and form of a reading


@dataclass(frozen=True, slots=True)
class Sign:
    """What a rule sees.

    Attributes:
        sure: It is there.
        calm: Nothing of it is left; a rule may be neither sure nor calm.
        site: Where it is worst, or was first.
        says: One plain sentence.
        shown: Quantity, site and form of the readings that show it.
    """

    sure: bool
    calm: bool = False
    site: str = ""
    says: str = ""
    shown: tuple[Shown, ...] = ()


CALM = Sign(sure=False, calm=True)
UNSURE = Sign(sure=False)


@dataclass(frozen=True)
class Rule(ABC):
    """One kind of alarm.

    Attributes:
        name: Of the alarm.
        speaks: When it begins, in words.
        severity: Of its findings.
        reads: Quantities; at a look that has none of them the rule is not asked.
        patience: Looks in a row at which it must be sure before the alarm begins.
        rest: Looks in a row at which it must be calm before the alarm ends.
        source: Author, year and place.
        remedies: What to do.
    """

    name: str
    speaks: str
    severity: Severity
    reads: frozenset[str]
    source: str
    remedies: tuple[str, ...]
    patience: int = 2
    rest: int = 5

    @abstractmethod
    def look(self, step: int, tracks: Tracks) -> Sign | None:
        """What it sees now; None where there is nothing to look at yet."""
