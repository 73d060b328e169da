"""What is not the same in two measurements of one model."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import final

from sigmascope.core.quantities import View
from sigmascope.core.records import Estimate, Reading


@final
@dataclass(frozen=True, slots=True)
class Change:
    """One quantity at one place, before and after.

    Attributes:
        site: Where.
        quantity: What.
        view: Of which view.
        form: Of which matrix.
        before: The number before.
        after: The number after.
    """

    site: str
    quantity: str
    view: View
    form: str
    before: Estimate
    after: Estimate

    @property
    def moved(self) -> bool:
        """Whether the two intervals have no number in common."""
        return self.before.high < self.after.low or self.after.high < self.before.low

    @property
    def factor(self) -> float:
        """After over before; infinite from zero."""
        if self.before.value == 0:
            return 1.0 if self.after.value == 0 else float("inf")
        return self.after.value / self.before.value


def changes(before: Iterable[Reading], after: Iterable[Reading]) -> tuple[Change, ...]:
    """Every quantity that was read in both, in the order of the first."""
    key = lambda r: (r.site, r.quantity, r.view, r.form)
    later = {key(r): r.estimate for r in after}
    return tuple(
        Change(r.site, r.quantity, r.view, r.form, r.estimate, later[key(r)])
        for r in before
        if key(r) in later
    )
