"""Which alarms are in force: each needs some looks to begin and some calm ones to end.

A rule says at every look how sure it is. An alarm begins when a rule was sure for as many looks as
it asks for, and ends when it was calm for as many; what lies between changes nothing.
"""

import logging
from collections.abc import Sequence
from dataclasses import dataclass, replace

from sigmascope.quantities import WATCH
from sigmascope.records import Estimate, Finding, Reading
from sigmascope.watching.alarms.rules import RULES, AlarmRule, Sign
from sigmascope.watching.alarms.tracks import Tracks
from sigmascope.watching.sinks import OVER, Column

LOG = logging.getLogger("sigmascope")


@dataclass(slots=True)
class _Bell:
    """What has become of one rule."""

    sure: int = 0
    calm: int = 0
    rung: Finding | None = None
    since: int = 0


class Alarms:
    """Hears every look and sounds alarms.

    Args:
        rules: All of them if not given.

    Attributes:
        waiting: Whether a rule was sure at the last look and wants to be so once more.
        struck: Whether the loss or the rate has left what is usual in what was heard last.
    """

    def __init__(self, rules: Sequence[AlarmRule] = RULES) -> None:
        self.struck = self.waiting = False
        self._rules = rules
        self._tracks = Tracks()
        self._bells = {rule: _Bell() for rule in rules}

    @property
    def in_force(self) -> tuple[Finding, ...]:
        """Those that have begun and not ended."""
        return tuple(b.rung for b in self._bells.values() if b.rung)

    def hear(self, rates: Sequence[float], losses: Sequence[float], apart: int = 1) -> bool:
        """Take the learning rates and the losses of some steps.

        Args:
            rates: Of each of them.
            losses: Of one in so many.
            apart: In how many.

        Returns:
            Whether a look is worth its price now.
        """
        rate, loss = self._tracks.rate, self._tracks.loss
        before, hints = (rate.jumped, rate.dropped), False
        drifted, calm = loss.drifts, loss.excess <= 1
        for each in rates:
            rate.add(each)
        for each in losses:
            loss.add(each, apart)
            hints |= loss.hints
        self.struck = (
            (rate.jumped, rate.dropped) != before
            or (calm and loss.excess > 1)
            or (loss.drifts and not drifted)
        )
        return hints or self.struck

    def glance(self, step: int, column: Column) -> None:
        """Take what was read between looks: what is usual is learnt from it, and nothing rings."""
        self._tracks.add(step, [column])

    @property
    def bounds(self) -> tuple[float, float, float]:
        """A loss at or above which, and rates below and above which, are to be heard at once."""
        return self._tracks.loss.top, *self._tracks.rate.usual

    def look(self, step: int, columns: Sequence[Column]) -> list[Finding]:
        """Take what a look has read.

        Args:
            step: Of the look.
            columns: What was read.

        Returns:
            Alarms that begin, and for each that ends a note.
        """
        self._tracks.add(step, columns)
        read = {c.quantity for c in columns}
        found, self.waiting = [], False
        for rule in self._rules:
            if read & rule.reads:
                found += self._heard(rule, self._bells[rule], step)
        for alarm in found:
            level = logging.INFO if alarm.name.endswith(OVER) else logging.WARNING
            LOG.log(level, "step %d: %s: %s", step, alarm.name, alarm.says)
        return found

    def _heard(self, rule: AlarmRule, bell: _Bell, step: int) -> list[Finding]:
        sign = rule.look(step, self._tracks)
        if sign is None:
            return []
        if sign.sure:
            bell.sure, bell.calm = bell.sure + 1, 0
            if not bell.rung and bell.sure >= rule.patience:
                bell.rung, bell.since = self._finding(rule, sign), step
                return [bell.rung]
            self.waiting |= not bell.rung
        elif sign.calm:
            bell.sure, bell.calm = 0, bell.calm + 1
            if bell.rung and bell.calm >= rule.rest:
                ended, bell.rung = bell.rung, None
                began = f"what began at step {bell.since} at {ended.site}"
                says = f"Over at step {step}: {began} is as usual again."
                name = ended.name + OVER
                note = replace(
                    ended, name=name, severity="note", evidence=(), says=says, remedies=()
                )
                return [note]
        return []

    def _finding(self, rule: AlarmRule, sign: Sign) -> Finding:
        evidence = tuple(
            Reading(site, name, Estimate.exactly(track.value, how="as trained"), WATCH, form)
            for name, site, form in sign.shown
            if (track := self._tracks.one(name, site, form)) and track.last is not None
        )
        return Finding(
            rule.name, sign.site, rule.severity, evidence, sign.says, rule.source, rule.remedies
        )
