"""What a view of a profile is."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from sigmascope.core import quantities as q
from sigmascope.core.records import Estimate, Item
from sigmascope.models import Subject


@dataclass(frozen=True, slots=True)
class ProfileView:
    """One way of looking at a model, as its module declares it.

    Attributes:
        name: By which it is asked for.
        items: What is read of a model, and what could not be.
        differentiates: Whether that takes gradients.
    """

    name: q.View
    items: Callable[[Subject], Iterator[Item]]
    differentiates: bool = True


def rough(value: float) -> Estimate:
    """A number that was made of very many, whose last 20 bits of 52 may be rounding."""
    return Estimate.rounded(value, ulps=2**20)
