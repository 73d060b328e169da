"""What of the looks is filed, and when: seldom enough for the budget and for the size of the file.

An alarm is filed at once. Of everything else the newest is filed when a share of the budget has
paid for it, and never more often than each two-hundredth of the steps made, so that a run of any
length has some hundreds to two thousand points. The invariant: a number is filed at the step that
it is of, however much later it is filed.
"""

import logging
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from sigmascope.records import Finding, Reading, SiteSpectrum, Skipped
from sigmascope.watching.columns import Column
from sigmascope.watching.looks import Look, Sink, one_line
from sigmascope.watching.loss_means import LossMeans
from sigmascope.watching.purses import Purses

LOG = logging.getLogger("sigmascope")
SHARE = 0.15  # of the budget
ADVANCE, THINNER = 0.25, 16  # seconds for the first of all, at each so many-th of the steps made
POINTS = 200  # of the steps made so far, between two that are filed


class Filing:
    """Keeps what was read last and hands it to the sinks when its time has come.

    Args:
        sinks: Where it goes.
        budget: Share of the training time that watching may take.
        clock: In seconds.
        means: Of losses; filed with what is kept.

    Attributes:
        spent: Seconds that filing has taken.
        rest: Of the budget, for everything else.
    """

    def __init__(
        self,
        sinks: Sequence[Sink],
        budget: float,
        clock: Callable[[], float],
        means: LossMeans | None = None,
    ) -> None:
        self._means = means or LossMeans()
        self._sinks, self._budget, self._clock = list(sinks), budget * SHARE, clock
        self.rest = budget - self._budget if self._sinks else budget
        self._columns: dict[tuple[str, str, str], tuple[int, Column]] = {}
        self._rest: dict[tuple[str, str, str], tuple[int, SiteSpectrum | Reading]] = {}
        self._skipped: list[Skipped] = []
        self._findings: list[Finding] = []
        self._last: int | None = None
        self._cost = 0.0
        self.spent, self._lent = 0.0, 0.0

    def keep(
        self,
        step: int,
        columns: Sequence[Column],
        rest: Sequence[SiteSpectrum | Reading],
        findings: Sequence[Finding],
        skipped: Sequence[Skipped],
    ) -> None:
        """What a look has found at a step; of each quantity the newest is kept."""
        if not self._sinks:
            return
        for column in columns:
            own = column.sites[0] if len(column.sites) == 1 else ""
            at = step if column.step is None else column.step
            self._columns[column.quantity, column.form, own] = at, column
        for each in rest:
            name = each.quantity if isinstance(each, Reading) else ""
            self._rest[each.site, each.form, name] = step, each
        self._findings += findings
        self._skipped += skipped

    def file_if_due(self, step: int, purses: Purses) -> float:
        """Hand over what was kept, if it is its time; the seconds it took."""
        start = self._clock()
        paid = self.spent - self._lent + self._cost <= self._budget * purses.trained
        early = not paid and self._lent + self._cost <= ADVANCE
        wait = max(1, step // (THINNER if early else POINTS))
        paid, apart = paid or early, self._last is None or step - self._last >= wait
        if self._findings or self._last is None or (paid and apart):
            self.file(step)
            self._lent += self._cost if early else 0.0
        return self._clock() - start

    def file(self, step: int) -> None:
        """Hand over what was kept, each at the step that it was read at."""
        start = self._clock()
        means = self._means.take()
        looks = [*self._looks(step)]
        if not (looks or means):
            return
        looks = looks or [Look(step, ())]
        looks[0] = replace(looks[0], losses=means)
        for look in looks:
            for sink in [*self._sinks]:
                self._hand(sink, lambda s, look=look: s.write(look))
        self._columns, self._rest, self._findings, self._skipped = {}, {}, [], []
        self._last, self._cost = step, self._clock() - start
        self.spent += self._cost

    def _looks(self, step: int) -> Iterator[Look]:
        """One for each step at which something was read, in their order."""
        read = [(at, r) for at, c in self._columns.values() for r in c.readings()]
        kept = [*read, *self._rest.values()]
        said = tuple(self._findings), tuple(self._skipped)
        steps = {at for at, _ in kept} | ({step} if any(said) else set())
        for at in sorted(steps):
            own = [found for when, found in kept if when == at]
            readings = tuple(r for r in own if isinstance(r, Reading))
            spectra = tuple(s for s in own if isinstance(s, SiteSpectrum))
            yield Look(at, readings, spectra, *(said if at == max(steps) else ((), ())))

    def close(self, step: int) -> None:
        """Hand over what is left, and let go of the sinks."""
        self._means.end()
        if self._sinks:
            self.file(step)
        for sink in [*self._sinks]:
            self._hand(sink, lambda s: s.close())
        self._sinks = []

    def _hand(self, sink: Sink, do: Callable[[Sink], None]) -> None:
        try:
            do(sink)
        except Exception as error:  # noqa: BLE001 (nothing that is watched may stop training)
            self._sinks.remove(sink)
            LOG.warning(
                "sigmascope files nothing more in %s: %s", type(sink).__name__, one_line(error)
            )
