"""What is known of a finding before it is found."""

from dataclasses import dataclass

from sigmascope.records.finding import Finding, Severity
from sigmascope.records.profile import Reading


@dataclass(frozen=True, slots=True, eq=False)
class Kind:
    """A kind of finding, declared once, beside the rule that finds it.

    What else is told of findings is derived from their kinds: which follow from which, which are
    errors whatever is foretold, the tables of the documentation, `sigmascope explain`. A kind names
    those that it brings as objects, so that they are declared before it, and causes have no circle.

    Attributes:
        name: As findings have it, e.g. `"rank-collapse"`.
        speaks: When it is found, in words.
        source: Author, year and number of what it rests on.
        proven: Its errors rest on arithmetic, or on a change that cured a copy: they stand whatever
            is foretold.
        even_if_it_learns: A loss that falls takes nothing of it: the task is another than is meant.
        setting: It is how the program trains, of which a probe at other settings says nothing.
        eases: The task is easier with it, so that no training is stuck because of it.
        of_any: Any cause may bring it: it is laid to the likeliest.
        brings: What follows from it.
    """

    name: str
    speaks: str
    source: str
    proven: bool = False
    even_if_it_learns: bool = False
    setting: bool = False
    eases: bool = False
    of_any: bool = False
    brings: tuple["Kind", ...] = ()

    def finding(
        self,
        site: str,
        severity: Severity,
        evidence: tuple[Reading, ...],
        says: str,
        remedies: tuple[str, ...] = (),
    ) -> Finding:
        """One of this kind.

        Args:
            site: Where it starts.
            severity: Of this one.
            evidence: The readings that show it.
            says: One plain sentence.
            remedies: What to do, one sentence each.
        """
        return Finding(self.name, site, severity, evidence, says, self.source, remedies)
