"""When each probe is read: as soon as it has earned what it costs.

Every probe has a bucket. A step of training puts a share of its time into each, a turn takes out
what it took. The invariant: what all turns have taken is never more than the budget's share of the
time trained, but for the first turns of each probe, whose cost is a guess, and the last.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sigmascope.core.guard import Refusal
from sigmascope.watching.probes import Probe

KEPT = 0.75  # of the budget that is given out; the rest is for what a clock does not see
MEMORY = 0.5  # weight of the last turn in what a turn is expected to take
PAUSE = 5.0  # times the usual step: a longer one was a pause, or validation, and earns nothing
FULLEST = 4.0  # turns that a bucket may hold
ADVANCE = 0.1  # seconds, in all, for the first looks: what is usual must be known before it is left
LEFT = 0.15  # of what a step earns, for the buckets, whatever else it pays for
THINNER = 4  # in that time a probe is read at each so many-th of the steps made


@dataclass(slots=True)
class TokenBucket:
    """What one probe has earned and what it costs.

    Attributes:
        probe: Whose it is.
        share: Of the budget.
        cost: Seconds that a turn is expected to take.
        held: Seconds.
        last: Step of its last turn.
        turns: So many were taken.
        advance: Seconds that it may take before it has earned them.
    """

    probe: Probe
    share: float
    cost: float
    held: float = 0.0
    last: int | None = None
    turns: int = 0
    advance: float = 0.0

    def pay(self, seconds: float, step: int) -> None:
        """A turn was taken."""
        if self.turns > 1:
            self.cost += MEMORY * (seconds - self.cost)
        else:  # the first turn loads and compiles what later ones find
            self.cost = seconds if self.turns else min(seconds, self.cost)
        lent = min(max(seconds - self.held, 0.0), self.advance)
        self.advance -= lent
        self.held += lent - seconds
        self.last = step
        self.turns += 1

    def due(self, step: int, rate: float) -> int:
        """The first step after `step` at which a turn can be paid, at `rate` seconds a step."""
        if self.probe.every:
            return step + self.probe.every - step % self.probe.every
        first = max(step + 1, self.probe.first)
        missing = self.cost - self.held
        wait = math.ceil(missing / (rate * self.share)) if missing > 0 else 0
        early = (self.last or 0) + (self.last or 0) // THINNER
        if self.advance >= self.cost:
            wait = min(wait, early - step)
        return max(first, step + wait)


class Buckets:
    """The buckets of all probes.

    Args:
        probes: All that there are.
        budget: Share of the training time that they may take together.
    """

    def __init__(self, probes: Sequence[Probe], budget: float) -> None:
        whole = sum(p.share for p in probes) or 1.0
        shares = [p.share / whole for p in probes]
        self.buckets = [
            TokenBucket(p, share, p.expected(), advance=ADVANCE * share)
            for p, share in zip(probes, shares, strict=True)
        ]
        self._budget = budget * KEPT
        self.step_seconds = 0.0
        self.trained, self.spent = 0.0, 0.0
        self._aside, self._left = 0.0, 1.0

    def earn(self, seconds: float, steps: int) -> None:
        """Some steps took so long, without what was spent on reading."""
        if steps < 1:
            return
        each = max(seconds, 0.0) / steps
        usual = self.step_seconds
        if usual and each > PAUSE * usual:
            each = usual
        self.step_seconds = each if not usual else 0.8 * usual + 0.2 * each
        self.trained += each * steps
        earned = each * steps * self._budget
        self._left = max(1 - self._aside / earned, LEFT) if earned else self._left
        self._aside = 0.0
        for bucket in self.buckets:
            most = FULLEST * bucket.cost
            bucket.held = min(bucket.held + earned * self._left * bucket.share, most)

    def aside(self, seconds: float) -> None:
        """Something that is no probe's took so long, at every step; it is paid for first."""
        self.spent += seconds
        self._aside += seconds

    def pay(self, probe: Probe, seconds: float, step: int) -> None:
        """A probe's turn took so long."""
        self.spent += seconds
        next(p for p in self.buckets if p.probe is probe).pay(seconds, step)

    def drop(self, probe: Probe) -> None:
        """A probe is read no more; the others share what it would have had."""
        self.buckets = [p for p in self.buckets if p.probe is not probe]
        whole = sum(p.share for p in self.buckets) or 1.0
        for bucket in self.buckets:
            bucket.share /= whole

    def plan(self, step: int) -> tuple[int, list[Probe]]:
        """The step of the next look, and what is read there."""
        rate = max(self.step_seconds, 1e-9) * self._budget * self._left
        due = {id(p): p.due(step, rate) for p in self.buckets if p.share or p.probe.every}
        at = min(due.values(), default=step + max(1, step // THINNER))
        return at, [p.probe for p in self.buckets if due.get(id(p), at) <= at]


def require_share(budget: Any) -> None:
    """Refuse what is no share of the training time."""
    known = isinstance(budget, int | float) and not isinstance(budget, bool)
    if not known or not 0 < budget <= 1 or not math.isfinite(budget):
        raise Refusal(
            f"`budget` must be a share of the training time above 0 and at most 1, got {budget!r}. "
            "0.02 is two per cent."
        )
