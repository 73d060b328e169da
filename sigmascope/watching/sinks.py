"""What one look at training yields, and where looks go."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from sigmascope.core import quantities as q
from sigmascope.core.records import Check, Estimate, Finding, Reading, SiteSpectrum, Skipped

# ------------------------------------------------------------------------------
# One quantity at many places at once: what probes read, before it is made into readings.
#
# Most looks are taken to raise an alarm and are never filed, so that nothing is made of them that
# costs more than the numbers.


UNKNOWN = "not a number"


@dataclass(frozen=True, slots=True)
class Column:
    """One quantity at some places.

    Attributes:
        quantity: As in the table of quantities.
        sites: The places.
        values: One for each; nan where the computation that is watched gave no number.
        error: By which each may be off, relative to its size, by rounding.
        form: As of a reading.
        how: The route.
        estimates: With intervals of their own, in the place of `values` and `error`.
        step: Of which they are, where that is not the step of the look, as of a loss that is
            handed in behind it.
    """

    quantity: str
    sites: Sequence[str]
    values: Sequence[float]
    error: float = 0.0
    form: str = ""
    how: str = "exact"
    estimates: Sequence[Estimate] = ()
    step: int | None = None

    @classmethod
    def of(cls, quantity: str, found: Sequence[tuple[str, Estimate]], form: str = "") -> "Column":
        """Estimates at places."""
        sites, estimates = [s for s, _ in found], [e for _, e in found]
        values = [e.value for e in estimates]
        return cls(quantity, sites, values, form=form, estimates=estimates)

    def readings(self) -> Iterator[Reading]:
        """As they are filed; what is not a number is an entry that is not finite."""
        if self.estimates:
            for site, estimate in zip(self.sites, self.estimates, strict=True):
                yield Reading(site, self.quantity, estimate, q.WATCH, self.form)
            return
        for site, value in zip(self.sites, self.values, strict=True):
            if math.isnan(value):
                some = Estimate(1.0, 1.0, math.inf, f"{self.quantity} is {UNKNOWN}")
                yield Reading(site, q.NON_FINITE_ENTRIES, some, q.WATCH, self.quantity)
            else:
                within = Estimate.within(value, abs(value) * self.error, how=self.how)
                yield Reading(site, self.quantity, within, q.WATCH, self.form)


LOSS, OPTIMIZER, WHOLE, OWN = "(loss)", "(optimizer)", "(model)", "(watch)"  # sites of no layer
MEANS = "mean of steps"  # form of losses over blocks of steps that all runs have
OVER = "-over"  # behind the name of an alarm: it has ended


# ------------------------------------------------------------------------------
# One look at training, and where looks go.


@dataclass(frozen=True, slots=True)
class Look:
    """What was read at one step of training, and which alarms began or ended there.

    Attributes:
        step: Steps that the optimizer had made.
        readings: In the order of the layers; those of no layer at `"(loss)"`, `"(optimizer)"`,
            `"(model)"`, `"(watch)"`.
        spectra: The singular values behind them, of the weights whose turn it was.
        findings: Alarms that begin here; one that ends is a note whose name has `"-over"` behind
            that of the alarm.
        skipped: What was given up from here on, and why.
        losses: Of the steps since the look before, as means over blocks of steps, by the last step
            of each.
        checks: Of theorems, as that balances are conserved.
    """

    step: int
    readings: tuple[Reading, ...]
    spectra: tuple[SiteSpectrum, ...] = ()
    findings: tuple[Finding, ...] = ()
    skipped: tuple[Skipped, ...] = ()
    losses: tuple[tuple[int, Reading], ...] = ()
    checks: tuple[Check, ...] = ()


@runtime_checkable
class Sink(Protocol):
    """Somewhere looks are sent: a run file, a logger, a table."""

    def write(self, look: Look) -> None:
        """Take one look; the steps of later ones are no smaller, but after a restart."""
        ...

    def close(self) -> None:
        """Nothing follows."""
        ...


def one_line(words: object) -> str:
    """What went wrong, for a log: one line, of no more than it takes to know it."""
    return " ".join(str(words).split())[:300]
