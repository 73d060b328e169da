"""Rounds of reading: a step that is looked at, from before its forward pass to what was found.

All processes that train a model go through the same rounds: at the end of one, the first process
says at which step the next is and which probes are read in it. A probe that fails anywhere is
dropped everywhere, and is one line.
"""

import logging
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.optim import Optimizer

from sigmascope.records import Skipped
from sigmascope.watching.looks import OWN
from sigmascope.watching.probes import Found, Probe
from sigmascope.watching.processes import Processes
from sigmascope.watching.purses import Purses

APART = 2  # steps since the last look, that a hurried one waits for
LOG = logging.getLogger("sigmascope")


class Rounds:
    """Opens probes, reads them and settles when the next round is.

    Args:
        probes: All that there are.
        processes: Those that train the model.
        budget: Share of the training time that they may take together.
        clock: In seconds.
        step: Made so far.

    Attributes:
        next: The step that is looked at next.
        opened: Whether the step that is being made is looked at.
        purses: What each probe may still take.
        dropped: Probes that have failed since they were last taken from here.
    """

    def __init__(
        self,
        probes: Sequence[Probe],
        processes: Processes,
        budget: float,
        clock: Callable[[], float],
        step: int,
    ) -> None:
        self._probes, self._processes, self._clock = list(probes), processes, clock
        self.purses = Purses(probes, budget)
        self._due = [p for p in probes if p.first == 1]
        self._failed: set[Probe] = set()
        self.next, self.opened, self.dropped = step + 1, False, list[Skipped]()
        self._counted, self._mark, self._start = step, clock(), 0.0

    def open(self) -> None:
        """The step that follows is looked at."""
        self.opened = True
        for probe in self._due:
            probe.seconds = 0.0
            self._ask(probe, probe.open)

    def before(self, optimizer: Optimizer) -> None:
        """Gradients are there, and this optimiser has not stepped."""
        for probe in self._due:
            self._ask(probe, probe.before, optimizer)

    def stepped(self, optimizer: Optimizer) -> None:
        """This optimiser has stepped."""
        for probe in self._due:
            self._ask(probe, probe.stepped, optimizer)

    def read(self, step: int) -> list[Found]:
        """What was found in the step just made; nothing but in the first process."""
        self._start = self._clock()
        own = sum(p.seconds for p in self._due)  # of hooks in the middle of the step
        self.purses.earn(self._start - self._mark - own, step - self._counted)
        self._counted, self.opened = step, False
        parts = {p: self._ask(p, p.local) for p in self._due}
        totals = self._totals({p: t for p, t in parts.items() if t is not None})
        if self._processes.rank:
            return []
        lists = (self._ask(p, _all_of, p, total) for p, total in totals.items())
        return [found for each in lists for found in each or ()]

    def settle(self, step: int, elsewhere: float) -> None:
        """When the next round is.

        Args:
            step: Made so far.
            elsewhere: Seconds since `read` that are no probe's: of filing.
        """
        took = self._clock() - self._start - elsewhere  # more than probes have measured
        paying = [p for p in self._due if p.share and p not in self._failed]
        rest = max(took - sum(p.seconds for p in paying), 0.0) / max(len(paying), 1)
        for probe in self._due:
            if probe.idle:
                self._drop(probe, "there is none in this model", quietly=True)
            if probe in self._failed:
                self.purses.drop(probe)
            elif probe.share:
                self.purses.pay(probe, probe.seconds + rest, step)
        self.next, due = self.purses.plan(step)
        marks = [1.0 if p in due else -1.0 if p in self._failed else 0.0 for p in self._probes]
        said = self._processes.agreed([self.next, *marks])
        self.next = int(said[0])
        self._due = [p for p, mark in zip(self._probes, said[1:], strict=True) if mark > 0]
        self._failed |= {p for p, m in zip(self._probes, said[1:], strict=True) if m < 0}
        self._mark = self._clock()

    def hurry(self, step: int) -> None:
        """Look at the step that follows, at what costs least, once in some steps.

        Only where one process decides.
        """
        if self.opened or self.next <= step + 1:
            return
        cheap = [purse for purse in self.purses.purses if purse.probe.first == 1]
        if cheap and step - max(purse.last or 0 for purse in cheap) >= APART:
            self.next, self._due = step + 1, [purse.probe for purse in cheap]
            self.open()

    def close(self) -> None:
        """Nothing is looked at any more."""
        for probe in self._due if self.opened else ():
            self._ask(probe, probe.close)
        self.opened, self._due = False, []

    def _totals(self, parts: dict[Probe, Tensor]) -> dict[Probe, Tensor]:
        """The sums over all processes of those probes that have handed in a part in each."""
        if self._processes.count == 1:
            return parts
        count = self._processes.count
        lengths = torch.tensor([[len(parts.get(p, ()))] for p in self._due], dtype=torch.float64)
        there = torch.tensor([[p in parts] for p in self._due], dtype=torch.float64)
        told = self._processes.summed(torch.cat([there, lengths, lengths.square()], 1)).tolist()
        alike = [n == count and count * b == a * a for n, a, b in told]
        for probe, same in zip(self._due, alike, strict=True):
            if not same:
                self._drop(probe, "it failed in another process, or saw other layers there")
        agreed = [p for p in self._due if p in parts and p not in self._failed]
        if not agreed:
            return {}
        whole = self._processes.summed(torch.cat([parts[p].double().cpu() for p in agreed]))
        return dict(zip(agreed, whole.cpu().split([len(parts[p]) for p in agreed]), strict=True))

    def _ask(self, probe: Probe, ask: Callable[..., Any], *args: Any) -> Any:
        """One of a probe's doings, with its time; None if the probe has failed."""
        if probe in self._failed:
            return None
        start = self._clock()
        try:
            return ask(*args)
        except Exception as error:  # noqa: BLE001 (nothing that is watched may stop training)
            self._drop(probe, f"{type(error).__name__}: {error}")
            return None
        finally:
            probe.seconds += self._clock() - start

    def _drop(self, probe: Probe, why: str, *, quietly: bool = False) -> None:
        if probe in self._failed:
            return
        self._failed.add(probe)
        line = " ".join(why.split())[:300]
        level = logging.DEBUG if quietly else logging.WARNING
        LOG.log(level, "sigmascope reads %s no more: %s", probe.name, line)
        self.dropped.append(Skipped(OWN, probe.name, line))
        try:
            probe.close()
        except Exception:
            LOG.debug("sigmascope could not close %s", probe.name, exc_info=True)


def _all_of(probe: Probe, total: Tensor) -> list[Found]:
    return list(probe.read(total))
