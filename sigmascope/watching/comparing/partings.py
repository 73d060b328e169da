"""Where two runs part: which step, which layers, which quantity."""

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from sigmascope import quantities as q
from sigmascope.records import Estimate, Shown
from sigmascope.store import Run
from sigmascope.watching.comparing.alarm_spans import AlarmSpan, alarm_spans
from sigmascope.watching.comparing.trajectories import (
    Key,
    Trajectory,
    on_common_steps,
    scaled,
    trajectories,
)
from sigmascope.watching.comparing.variations import WINDOW, gaps, limit, standard_errors
from sigmascope.watching.looks import LOSS, MEANS, OWN

Common = Mapping[Key, tuple[Trajectory, Trajectory, bool]]


@dataclass(frozen=True, slots=True)
class Parted:
    """One quantity at one place, which two runs no longer agree on.

    Attributes:
        site: Where.
        view: Of which view.
        form: Of which matrix.
        quantity: What.
        step: From which step on the difference has kept its sign and stood above variation.
        seen: Step at which it was decided; not before `step`.
        first: The reading of the first run at `seen`.
        second: That of the second.
        times: The mean difference over the window, in standard errors that the runs' own
            step-to-step variation explains; infinite where neither run varies.
    """

    site: str
    view: str
    form: str
    quantity: str
    step: int
    seen: int
    first: Estimate
    second: Estimate
    times: float


@dataclass(frozen=True, slots=True)
class Setting:
    """A word about the circumstances that two runs do not share; None where one lacks it."""

    name: str
    first: str | None
    second: str | None


@dataclass(frozen=True, slots=True, repr=False)
class Parting(Shown):
    """Two runs of training side by side.

    Attributes:
        runs: The names of their files.
        steps: The last step of each.
        same_until: The last step up to which all that both read at the same steps is bit for bit
            the same; None if no step is.
        differs_at: The first step at which anything differs; None if nothing does.
        differing: What differs at that step: site, view, form, quantity.
        parted: What left variation, in the order of steps.
        window: Over how many readings differences are averaged, once there are so many.
        limit: Standard errors above which a difference of a whole window counts.
        compared: How many trajectories both have.
        interpolated: At how many of them the second run was interpolated, for want of steps in
            common.
        unjudged: How many have fewer than two readings in common, so that no variation is known.
        only: Sites that only the first, and only the second run has.
        unmatched: How many trajectories at shared sites only one of them has.
        settings: Words about them that differ.
        alarms: Those that only the first, and only the second run raised, by name and site.
        losses: The last loss of each; None where none was read.
        loss_steps: Of which steps they are.
    """

    runs: tuple[str, str]
    steps: tuple[int | None, int | None]
    same_until: int | None
    differs_at: int | None
    differing: tuple[Key, ...]
    parted: tuple[Parted, ...]
    window: int
    limit: float
    compared: int
    interpolated: int
    unjudged: int
    only: tuple[tuple[str, ...], tuple[str, ...]]
    unmatched: int
    settings: tuple[Setting, ...]
    alarms: tuple[tuple[AlarmSpan, ...], tuple[AlarmSpan, ...]]
    losses: tuple[Estimate | None, Estimate | None]
    loss_steps: tuple[int | None, int | None]

    @property
    def order(self) -> tuple[Parted, ...]:
        """The first quantity that parted at each site, in the order of steps."""
        firsts: dict[str, Parted] = {}
        for p in self.parted:
            firsts.setdefault(p.site, p)
        return tuple(firsts.values())


def part(first: Run, second: Run) -> Parting:
    """Say where two runs part.

    A difference leaves what the runs' own step-to-step variation explains where its mean over the
    last readings (16 at most) is more standard errors from zero than chance allows at any step of
    any trajectory, as `variations` has it. Where intervals of two readings overlap they do not
    differ; quantities of many decades are compared by their logarithms. What the watch reads of
    itself is left out.

    Args:
        first: A run.
        second: Another, of the same model or one that shares layers with it.

    Raises:
        Damaged: If one of the files is.
    """
    both = [_read(run) for run in (first, second)]
    a, b = both
    common = {key: on_common_steps(a[key], b[key]) for key in a if key in b}
    tests = sum(max(0, len(x.steps) - 1) for x, _, _ in common.values())
    found = (_parted(key, x, y, tests) for key, (x, y, _) in common.items())
    sites = [{key.site for key in found} for found in both]
    only = (tuple(_only(a, sites[1])), tuple(_only(b, sites[0])))
    apart = [key for key in {*a} ^ {*b} if key.site in sites[0] & sites[1]]
    return Parting(
        runs=(str(first.path), str(second.path)),
        steps=(_last(a), _last(b)),
        **_bits(common),
        parted=tuple(sorted(filter(None, found), key=lambda p: (p.step, p.seen, -p.times))),
        window=WINDOW,
        limit=limit(WINDOW, tests) if tests else math.inf,
        compared=len(common),
        interpolated=sum(interpolated for *_, interpolated in common.values()),
        unjudged=sum(len(x.steps) < 2 for x, _, _ in common.values()),
        only=only,
        unmatched=len(apart),
        settings=tuple(_settings(first, second)),
        alarms=_alarms(first, second),
        losses=(_loss(a)[0], _loss(b)[0]),
        loss_steps=(_loss(a)[1], _loss(b)[1]),
    )


def _read(run: Run) -> Mapping[Key, Trajectory]:
    found = trajectories(run.cells("readings"))
    return {key: t for key, t in found.items() if key.site != OWN}


def _only(one: Mapping[Key, Trajectory], others: set[str]) -> Iterator[str]:
    yield from dict.fromkeys(key.site for key in one if key.site not in others)


def _last(run: Mapping[Key, Trajectory]) -> int | None:
    return max((int(t.steps[-1]) for t in run.values()), default=None)


def _loss(run: Mapping[Key, Trajectory]) -> tuple[Estimate | None, int | None]:
    """The last loss as it was passed, before any form of it, and its step."""
    found = sorted((key.form, key) for key in run if (key.site, key.quantity) == (LOSS, q.LOSS))
    if not found:
        return None, None
    last = run[found[0][1]]
    return last.estimate(-1), int(last.steps[-1])


def _bits(common: Common) -> dict[str, Any]:
    """Up to which step all is the same, where it first is not, and what differs there."""
    shared: set[int] = set()
    differing: dict[int, list[Key]] = {}
    for key, (x, y, interpolated) in common.items():
        if interpolated or key.form == MEANS:  # which losses are in a mean goes by the clock
            continue
        shared.update(map(int, x.steps))
        unlike = (x.numbers != y.numbers).any(axis=0)
        if unlike.any():
            differing.setdefault(int(x.steps[unlike.argmax()]), []).append(key)
    at = min(differing, default=None)
    same = [step for step in shared if at is None or step < at]
    what = () if at is None else tuple(differing[at])
    return {"same_until": max(same, default=None), "differs_at": at, "differing": what}


def _parted(key: Key, x: Trajectory, y: Trajectory, tests: int) -> Parted | None:
    if len(x.steps) < 2:
        return None
    a, b = scaled(key, x, y)
    times, limits, error = standard_errors(a, b, tests)
    beyond = np.flatnonzero(times > limits)
    if not len(beyond):
        return None
    seen = int(beyond[0])
    gap = gaps(a, b)
    sign = np.sign(gap[max(0, seen + 1 - WINDOW) : seen + 1].sum())
    away = gap * sign > error[seen]
    begin = seen
    while begin > 0 and away[begin - 1] and seen - begin < WINDOW:
        begin -= 1
    steps = int(x.steps[begin]), int(x.steps[seen])
    return Parted(*key, *steps, x.estimate(seen), y.estimate(seen), float(times[seen]))


def _settings(first: Run, second: Run) -> Iterator[Setting]:
    a, b = ({w.name: w.value for w in run.about()} for run in (first, second))
    for name in {**a, **b}:
        if a.get(name) != b.get(name):
            yield Setting(name, a.get(name), b.get(name))


def _alarms(first: Run, second: Run) -> tuple[tuple[AlarmSpan, ...], tuple[AlarmSpan, ...]]:
    a, b = (alarm_spans(run.findings()) for run in (first, second))
    name = lambda span: (span.finding.name, span.finding.site)
    other = [{*map(name, spans)} for spans in (b, a)]
    alone = [[s for s in spans if name(s) not in o] for spans, o in zip((a, b), other, strict=True)]
    return tuple(alone[0]), tuple(alone[1])
