"""What a rule is: a function from a profile to findings, with what it reads and may find."""

from collections.abc import Callable, Iterator
from functools import update_wrapper
from typing import Literal

from sigmascope.quantities import View
from sigmascope.records import Finding, Kind, Profile

Needs = View | Literal["task"]
Find = Callable[[Profile], Iterator[Finding]]


class Rule:
    """A rule that declares itself; called with a profile, it yields findings.

    Attributes:
        name: Of its function.
        reads: The view without whose readings it is silent whatever is there, or `"task"`: outputs,
            targets and loss.
        kinds: What it may find, the deepest cause first.
    """

    def __init__(self, find: Find, reads: Needs, kinds: tuple[Kind, ...]) -> None:
        self._find, self.name, self.reads, self.kinds = find, find.__name__, reads, kinds
        update_wrapper(self, find)

    def __call__(self, profile: Profile) -> Iterator[Finding]:
        return self._find(profile)


def rule(reads: Needs, *kinds: Kind) -> Callable[[Find], Rule]:
    """Declare a function as a rule.

    Args:
        reads: See `Rule`.
        kinds: See `Rule`.
    """
    return lambda find: Rule(find, reads, kinds)
