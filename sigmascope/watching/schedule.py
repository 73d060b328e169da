"""Which probes a watch has, when each is read, and the rounds in which they are."""

import logging
import math
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from sigmascope.core import products
from sigmascope.core.guard import Refusal, on_cpu, printable
from sigmascope.core.quantities import View, wanted_views
from sigmascope.core.records import Skipped
from sigmascope.watching.extra_passes import EagerPass
from sigmascope.watching.probes import (
    Activations,
    Attention,
    Balances,
    Found,
    Gradients,
    Losses,
    Probe,
    ProbeBatch,
    Profiles,
    Representations,
    Sharpness,
    Updates,
    WeightSpectra,
    handed,
)
from sigmascope.watching.probes.base import Place
from sigmascope.watching.probes.norms import Squares
from sigmascope.watching.processes import Processes, is_sharded
from sigmascope.watching.sinks import OWN, one_line

# ------------------------------------------------------------------------------
# When each probe is read: as soon as it has earned what it costs.
#
# Every probe has a bucket. A step of training puts a share of its time into each, a turn takes out
# what it took. The invariant: what all turns have taken is never more than the budget's share of
# the time trained, but for the first turns of each probe, whose cost is a guess, and the last.


KEPT = 0.75  # of the budget that is given out; the rest is for what a clock does not see
MEMORY = 0.5  # weight of the last turn in what a turn is expected to take
# times the usual step: a longer one was a pause, or validation, and earns nothing; two of them in a
# row are what steps take now, as where the first was measured too short
PAUSE = 5.0
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
        self._long = math.inf  # what a step seemed to take that was too long

    def earn(self, seconds: float, steps: int) -> None:
        """Some steps took so long, without what was spent on reading."""
        if steps < 1:
            return
        each = max(seconds, 0.0) / steps
        usual = self.step_seconds
        if usual and each > PAUSE * usual:
            each, self._long = min(each, self._long) if self._long < math.inf else usual, each
        else:
            self._long = math.inf
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


# ------------------------------------------------------------------------------
# Which probes a watch has.


SEED = 20230121  # of signs and blocks; no generator of the user's is touched


def chosen(
    model: nn.Module,
    places: Sequence[Place],
    processes: Processes,
    losses: Losses,
    *,
    probe: ProbeBatch | None,
    views: Collection[View] | None = None,
    every: int | None = None,
    blocks: bool = False,
    only: Collection[str] | None = None,
    compiled: bool = False,
) -> list[Probe]:
    """The probes, the cheapest first.

    Args:
        model: The user's own module.
        places: The trained layers.
        processes: Those that train it.
        losses: What the training loop hands in; always there.
        probe: A batch that stays the same; without it there is no sharpness and no profile.
        views: Of profiles, and of what is followed besides. None: `"features"`.
        every: Steps between two profiles; None for as many as the budget asks for.
        blocks: Of balances, whether pairs of units are followed too.
        compiled: Whether it is called through what `torch.compile` has made of it.
        only: Names of those that are wanted; all that there can be if not given.

    Raises:
        Refusal: If a name is unknown, or of one that needs a probe batch where there is none, or
            the balances of the probe batch cannot be found.
    """
    if every is not None and not (isinstance(every, int) and every >= 1):
        raise Refusal(
            f"`every` must be a number of steps, 1 or more, got {every!r}. Leave it out to have "
            "the probe batch read as often as the budget pays for."
        )
    if probe is None and (every is not None or views):
        raise Refusal(
            "`views` and `every` need a batch that is read while the model trains, got no "
            "`probe_batch`. Pass one, of some dozens of samples."
        )
    views = ["features"] if views is None else wanted_views(views) if views else []
    squares = Squares(places, processes)
    by_turns = (
        Representations(model, processes),
        WeightSpectra(model, places, processes, _generator()),
        Balances(model, places, processes),
    )
    found: list[Probe] = [
        losses,
        Gradients(squares),
        Updates(squares),
        Activations(model),
        Attention(model),
        *(each for each in by_turns if len(each)),
    ]
    for each in found:
        each.compiled = compiled
    if probe is not None and is_sharded(model):
        why = "one process alone cannot run a model whose weights are sharded"
        losses.notes = (Skipped(OWN, "what needs the probe batch", why),)
    elif probe is not None:
        if probe.loss is not None and probe.targets is not None:
            found.append(Sharpness(model, places, probe, _generator()))
        if views:
            found.append(Profiles(model, probe, views))
        for kind in _followed():
            if kind.of_batch in views and (only is None or kind.name in only):
                found.append(kind(model, probe, blocks=blocks))
        for each in found:
            if every and each.of_batch:
                each.every, each.share = every, 0.0
    names = [p.name for p in found]
    unknown = [name for name in only or () if name not in names]
    if unknown:
        raise Refusal(
            f"`only` must name some of {', '.join(names[1:])}, got {printable(unknown[0])!r}. "
            "`sharpness` needs `probe_batch`, `targets` and `loss`, `profile` needs `probe_batch`, "
            + ", ".join(
                f"and `{k.name}` needs `probe_batch` and `views` with `{k.of_batch}`"
                for k in _followed()
            )
            + "."
        )
    return [p for p in found if only is None or p is losses or p.name in only]


def _followed() -> list[Any]:
    """Kinds of probes that other products bring."""
    return [module.PROBE for module in products.modules(products.FOLLOWED)]


def _generator() -> torch.Generator:
    return torch.Generator().manual_seed(SEED)


# ------------------------------------------------------------------------------
# Rounds of reading: a step that is looked at, from before its forward pass to what was found.
#
# All processes that train a model go through the same rounds: at the end of one, the first process
# says at which step the next is and which probes are read in it. A probe that fails anywhere is
# dropped everywhere, and is one line. The invariant: only here do processes wait for one another,
# at points that each passes whatever has failed in it.


APART = 2  # steps since the last look, that a hurried one waits for
BEHIND = 1.25  # times a look: the steps at and behind it find the caches emptied (RESULTS.md)
DEBT = 20.0  # turns of a probe: one that owes more is not hurried, as in a run that is lost
JOINT = 5.0  # the same of several processes, which all wait for a turn
LOG = logging.getLogger("sigmascope")


class Scheduler:
    """Opens probes, reads them and settles when the next round is.

    Args:
        probes: All that there are.
        processes: Those that train the model.
        budget: Share of the training time that they may take together.
        clock: In seconds.
        step: Made so far.
        again: Makes the pass of a step once more, for what is compiled; None where nothing can be.

    Attributes:
        next: The step that is looked at next.
        opened: Whether the step that is being made is looked at.
        buckets: What each probe may still take.
        dropped: Probes that have failed since they were last taken from here.
        must_file: Whether something was read whose steps were asked for.
    """

    def __init__(
        self,
        probes: Sequence[Probe],
        processes: Processes,
        budget: float,
        clock: Callable[[], float],
        step: int,
        again: EagerPass | None = None,
    ) -> None:
        self._again = again
        self._probes, self._processes, self._clock = list(probes), processes, clock
        self.buckets = Buckets(probes, budget)
        self._due = [p for p in probes if p.first == 1 or p.every]
        for probe in probes:
            probe.clock = clock
        self._failed: set[Probe] = set()
        self.next: float = step + 1
        self.opened, self.must_file, self.dropped = False, False, list[Skipped]()
        self._closed, self._told = False, set[Probe]()
        self._counted, self._mark, self._start = step, clock(), 0.0
        self._around = self._inside = 0.0  # seconds in the middle of steps, and of probes in them

    def open(self) -> None:
        """The step that follows is looked at."""
        self.opened = True
        self._around = self._inside = 0.0
        around = any(p.compiled for p in self._probes)
        for probe in self._due:
            probe.seconds, probe.error = 0.0, None
            probe.again, probe.compiled = self._again.of if self._again else "", around
            self._ask(probe, probe.open)
        if self._again and any(p.deaf for p in self._due):
            self._again.catch(compiled_around=around)

    def before(self, optimizer: Optimizer, *, closure: bool = False) -> None:
        """Gradients are there, and this optimizer has not stepped.

        Args:
            optimizer: Of torch.
            closure: Whether the step makes the gradients, so that they are read behind it.
        """
        start, self._closed = self._clock(), closure
        for probe in self._due:
            if not (closure and probe.of_gradients):
                self._ask(probe, probe.before, optimizer)
        self.took(start)

    def stepped(self, optimizer: Optimizer) -> None:
        """This optimizer has stepped."""
        start = self._clock()
        for probe in self._due:
            if self._closed and probe.of_gradients:
                self._ask(probe, probe.before, optimizer)
            self._ask(probe, probe.stepped, optimizer)
        self.took(start)

    def trained(self, step: int) -> float:
        """Seconds that training has taken until a step; those since the last look as is usual."""
        return self.buckets.trained + (step - self._counted) * self.buckets.step_seconds

    def took(self, start: float) -> None:
        """Since then this round has been at work, in the middle of a step."""
        self._around += self._clock() - start

    def read(self, step: int) -> list[Found]:
        """What was found in the step just made; nothing but in the first process."""
        self._start = self._clock()
        own = self._around - self._inside + sum(p.seconds for p in self._due)
        for probe in self._probes:
            own += probe.beside
            self.buckets.spent += probe.beside
            probe.beside = 0.0
        self.must_file = any(p.every for p in self._due)
        self.buckets.earn(self._start - self._mark - own, step - self._counted)
        self._counted, self.opened = step, False
        for probe in self._due:
            probe.step = step
        deaf = [p for p in self._due if p.deaf and p not in self._failed]
        if deaf and self._again:  # one pass for all, that the first pays
            self.dropped += self._ask(deaf[0], self._again.run, deaf) or ()
        # the sums over all processes of what probes hand in
        running = {p: handed(p) for p in self._due}
        sums: dict[Probe, Tensor | None] = dict.fromkeys(running)
        totals: dict[Probe, Tensor] = {}
        while running:
            asked = {p: self._ask(p, steps.send, sums[p]) for p, steps in running.items()}
            # what does not fit together in all processes, or has failed in any, is dropped in all
            shapes = [-1.0 if a is None else 2.0 * len(a[0]) + a[1] for a in asked.values()]
            alike = self._processes.alike(shapes)
            for probe, same in zip(asked, alike, strict=True):
                if not same:
                    self._drop(probe, "it failed in another process, or saw other layers there")
            parts = {p: a for p, a in asked.items() if a is not None and p not in self._failed}
            told = {p: part.double() for p, (part, _) in parts.items()}
            if told and self._processes.count > 1:  # all at once
                sent = self._processes.summed(torch.cat([part.cpu() for part in told.values()]))
                sizes = [len(part) for part in told.values()]
                told = dict(zip(told, sent.cpu().split(sizes), strict=True))
            totals |= {p: told[p] for p, (_, last) in parts.items() if last}
            running = {p: running[p] for p, (_, last) in parts.items() if not last}
            sums |= told
        if self._processes.rank:
            return []
        lists = [self._ask(p, lambda p, t: [*p.read(t)], p, total) for p, total in totals.items()]
        for probe in self._due:
            for note in probe.notes:
                LOG.warning("sigmascope leaves out %s: %s", note.what, note.why)
            self.dropped += probe.notes
            self._told |= {probe} if probe.notes else set()
            probe.notes = ()
        return [found for each in lists for found in each or ()]

    def settle(
        self,
        step: int,
        elsewhere: float,
        *,
        over: bool = False,
        again: bool = False,
        news: bytes = b"",
    ) -> bytes:
        """When the next round is.

        Args:
            step: Made so far.
            elsewhere: Seconds since `read` that are no probe's: of filing.
            over: Whether there is none.
            again: Whether what was read is wanted once more, and soon.
            news: Of the first process, for all others.

        Returns:
            The news of the first process.
        """
        took = self._around + self._clock() - self._start - elsewhere
        paying = [p for p in self._due if p.share and p not in self._failed]
        rest = max(took - self._inside, 0.0) / max(len(paying), 1)  # that is no probe's own
        for probe in self._due:
            if probe.idle:
                self._drop(probe, "nothing of it is heard in this model", quietly=True)
            if probe in self._failed:
                self.buckets.drop(probe)
            elif probe.share:
                self.buckets.pay(probe, BEHIND * (probe.seconds + rest), step)
            else:
                self.buckets.spent += probe.seconds if probe.every else 0.0
        at, due = (math.inf, []) if over else self.buckets.plan(step)
        read = [p for p in self.buckets.buckets if p.probe in self._due and not p.probe.every]
        if again and at > step + APART and not self._owing(read):
            at, due = step + APART, [p.probe for p in read]
        size = self._agree(at, due, len(news))
        if size and self._processes.count > 1:
            news = self._processes.message(size, news)
        self._mark = self._clock()
        return news

    def _agree(self, at: float, due: Sequence[Probe], size: int = 0) -> int:
        """What the first process says of the next round, and how long its news are."""
        marks = [1.0 if p in due else -1.0 if p in self._failed else 0.0 for p in self._probes]
        self.next, length, *marks = self._processes.agreed([at, size, *marks])
        self._due = [p for p, mark in zip(self._probes, marks, strict=True) if mark > 0]
        self._failed |= {p for p, mark in zip(self._probes, marks, strict=True) if mark < 0}
        return round(length)

    def hurry(self, step: int, also: str = "") -> bool:
        """Look at the step that follows, at what costs least; asked in all processes at once.

        Args:
            step: Made so far.
            also: Name of a probe that is read besides, for once whatever it costs.

        Returns:
            Whether it is to be opened.
        """
        if self.opened or math.isinf(self.next) or (self.next <= step + 1 and not also):
            return False
        cheap = [p for p in self.buckets.buckets if p.probe.first == 1 or p.probe.name == also]
        soon = step - max((p.last or 0 for p in cheap), default=step) < APART
        if not also and (soon or self._owing(cheap)):
            self._agree(self.next, self._due)
        else:
            due = self._due if self.next <= step + 1 else []
            self._agree(step + 1, [*due, *(p.probe for p in cheap if p.probe not in due)])
        return self.next <= step + 1

    def _owing(self, buckets: Iterable[TokenBucket]) -> bool:
        """Whether any of them has had too much."""
        debt = JOINT if self._processes.count > 1 else DEBT
        return any(p.held < -debt * p.cost for p in buckets)

    def close(self) -> None:
        """Nothing is looked at any more."""
        if self._again:
            self._again.close()
        for probe in self._due if self.opened else ():
            self._ask(probe, probe.close)
        self.opened, self._due, self.next = False, [], math.inf

    def _ask(self, probe: Probe, ask: Callable[..., Any], *args: Any) -> Any:
        """One of a probe's doings, with its time; None if the probe has failed."""
        if probe in self._failed:
            return None
        start = self._clock()
        try:
            with on_cpu():
                return ask(*args)
        except Exception as error:  # noqa: BLE001 (nothing that is watched may stop training)
            self._drop(probe, f"{type(error).__name__}: {error}")
            return None
        finally:
            took = self._clock() - start
            probe.seconds += took
            self._inside += took

    def _drop(self, probe: Probe, why: str, *, quietly: bool = False) -> None:
        if probe in self._failed:
            return
        self._failed.add(probe)
        line = one_line(why)
        level = logging.DEBUG if quietly else logging.WARNING
        LOG.log(level, "sigmascope reads %s no more: %s", probe.name, line)
        if not (quietly and probe in self._told):
            self.dropped.append(Skipped(OWN, probe.name, line))
        try:
            probe.close()
        except Exception:  # what it failed in may keep it from closing; that was said above
            LOG.debug("sigmascope could not close %s", probe.name, exc_info=True)
