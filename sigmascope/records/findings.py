"""What is said of measurements: findings, their kinds, and the rules that find them."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import update_wrapper
from typing import Generic, Literal, TypeVar

from sigmascope.records.profile import Reading
from sigmascope.records.shown import Shown

# ------------------------------------------------------------------------------
# What a finding is.


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


# ------------------------------------------------------------------------------
# What is known of a finding before it is found.


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


# ------------------------------------------------------------------------------
# What a rule is: a function from what was measured to findings, that declares itself.


Measured = TypeVar("Measured")


class Rule(Generic[Measured]):
    """A rule that declares itself; called with what was measured, it yields findings.

    Attributes:
        name: Of its function.
        reads: What it is silent without: of a profile a view, or `"task"` (outputs, targets and
            loss); of a checkpoint a quantity.
        kinds: What it may find, the deepest cause first.
    """

    def __init__(
        self, find: Callable[[Measured], Iterator[Finding]], reads: str, kinds: tuple[Kind, ...]
    ) -> None:
        self._find, self.name, self.reads, self.kinds = find, find.__name__, reads, kinds
        update_wrapper(self, find)

    def __call__(self, measured: Measured) -> Iterator[Finding]:
        return self._find(measured)


def rule(
    reads: str, *kinds: Kind
) -> Callable[[Callable[[Measured], Iterator[Finding]]], Rule[Measured]]:
    """Declare a function as a rule.

    Args:
        reads: See `Rule`.
        kinds: See `Rule`.
    """
    return lambda find: Rule(find, reads, kinds)


def kinds_of(rules: tuple[Rule, ...]) -> tuple[Kind, ...]:
    """What rules may find, each once, in their order."""
    return tuple(dict.fromkeys(kind for rule in rules for kind in rule.kinds))
