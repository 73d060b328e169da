"""What one look at training yields, and where looks go."""

from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from sigmascope.records import Finding, Reading, SiteSpectrum, Skipped

LOSS, OPTIMISER, WHOLE, OWN = "(loss)", "(optimiser)", "(model)", "(watch)"  # sites of no layer
MEANS = "mean of steps"  # form of losses over blocks of steps that all runs have
OVER = "-over"  # behind the name of an alarm: it has ended


@dataclass(frozen=True, slots=True)
class Look:
    """What was read at one step of training, and which alarms began or ended there.

    Attributes:
        step: Steps that the optimiser had made.
        readings: In the order of the layers; those of no layer at `"(loss)"`, `"(optimiser)"`,
            `"(model)"`, `"(watch)"`.
        spectra: The singular values behind them, of the weights whose turn it was.
        findings: Alarms that begin here; one that ends is a note whose name has `"-over"` behind
            that of the alarm.
        skipped: What was given up from here on, and why.
        losses: Of the steps since the look before, as means over blocks of steps, by the last step
            of each.
    """

    step: int
    readings: tuple[Reading, ...]
    spectra: tuple[SiteSpectrum, ...] = ()
    findings: tuple[Finding, ...] = ()
    skipped: tuple[Skipped, ...] = ()
    losses: tuple[tuple[int, Reading], ...] = ()


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
