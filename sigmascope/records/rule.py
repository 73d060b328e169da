"""What a rule is: a function from what was measured to findings, that declares itself."""

from collections.abc import Callable, Iterator
from functools import update_wrapper
from typing import Generic, TypeVar

from sigmascope.records.finding import Finding
from sigmascope.records.kind import Kind

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
