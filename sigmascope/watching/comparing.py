"""Two watched runs compared: where they part, and which alarms each had."""

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import scipy
from numpy.lib.stride_tricks import sliding_window_view

from sigmascope.core import quantities as q
from sigmascope.core.quantities import quantities
from sigmascope.core.records import Estimate, Finding, Shown
from sigmascope.core.store import COLUMNS, Row, Run
from sigmascope.watching.sinks import LOSS, MEANS, OVER, OWN

__all__ = ["AlarmSpan", "Parted", "Parting", "Setting", "alarm_spans", "part"]


# ------------------------------------------------------------------------------
# How far two trajectories lie apart, in what their own step-to-step variation explains.
#
# The mean difference over a window is compared with the standard error that two runs around a
# common trend would have. Their variances come from the mean squared successive differences of each
# run in that window, which a trend only enlarges (von Neumann 1941), with 2/3 of a degree of
# freedom for each difference, of one run alone to be safe. Noise that lingers, as of a process x' =
# rho x + e, has smaller differences and fewer independent readings than its variance tells: rho
# comes from the products of neighbouring differences so far, and the standard error grows by sqrt(1
# + rho) / (1 - rho). For curves without noise rho stands at its cap, so that a lag of a few
# readings does not count. The limit is Student's t at a risk of `RISK` over the number of tests
# (Bonferroni). Of pairs of 200 readings with independent noise, 0 of 2000 parted; with rho = 0.5,
# 0.2 %; with rho = 0.8, 4 %.


WINDOW = 16  # readings over which a difference is averaged
RISK = 0.01  # that variation alone makes any trajectory part, at any step
LINGERING = 0.9  # the most that a reading is held to have of the one before it


def gaps(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """How far intervals lie apart, with the sign of first less second; 0 where they meet.

    Args:
        a: Value, low and high of each reading [3, n].
        b: The same of the other run.
    """
    with np.errstate(invalid="ignore"):
        above, below = a[1] - b[2], b[1] - a[2]
    gap = np.where(above > 0, above, np.where(below > 0, -below, 0.0))
    return np.nan_to_num(gap, nan=0.0, posinf=np.inf, neginf=-np.inf)


def standard_errors(
    a: np.ndarray, b: np.ndarray, tests: int
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Mean differences in standard errors, as far as each reading.

    Args:
        a: Value, low and high of each reading [3, n].
        b: The same of the other run.
        tests: How many are made in all.

    Returns:
        The differences, infinite where neither run varies; what they may be; and the standard
        deviation of the difference of two single readings.
    """
    gap, n = gaps(a, b), a.shape[1]
    sizes = np.minimum(np.arange(1, n + 1), WINDOW)
    with np.errstate(invalid="ignore", over="ignore", divide="ignore"):
        changes: np.ndarray = np.diff(np.stack([a[0], b[0]]))
        squares = np.nan_to_num(np.square(changes).sum(axis=0), nan=np.inf)
        mean = _sums(gap, WINDOW) / sizes
        variance = np.r_[np.inf, _sums(squares, WINDOW - 1)] / (2 * np.maximum(sizes - 1, 1))
        # what of a reading is left in the next, from all changes so far: 0 to `LINGERING`
        products = np.nan_to_num((changes[:, 1:] * changes[:, :-1]).sum(axis=0), posinf=0, neginf=0)
        summed = np.cumsum(np.where(np.isfinite(squares), squares, 0.0))[1:]
        share = np.full_like(summed, -0.5)
        np.divide(np.cumsum(products), summed, out=share, where=summed > 0)
        rho = np.clip(1 + 2 * share, 0.0, LINGERING)  # of neighbours, -(1 - rho) / 2
        rho = np.r_[np.zeros(n - len(rho)), rho]
        times = np.abs(mean) / np.sqrt(variance / sizes * (1 + rho)) * (1 - rho)
    one_is_infinite = np.isinf(a[0]) != np.isinf(b[0])
    times = np.where(one_is_infinite, np.inf, np.nan_to_num(times, nan=0.0, posinf=np.inf))
    limits = np.array([limit(size, tests) for size in range(1, WINDOW + 1)])[sizes - 1]
    return times, limits, np.sqrt(np.where(np.isfinite(variance), variance, 0.0))


def limit(size: int, tests: int) -> float:
    """What Student's t exceeds with the risk of one of so many tests, with so many readings."""
    if size < 2:
        return math.inf
    return float(scipy.special.stdtrit(2 / 3 * (size - 1), 1 - RISK / (2 * max(tests, 1))))


def _sums(row: np.ndarray, width: int) -> np.ndarray:
    """Of the last `width` entries up to each, of fewer at the beginning."""
    return sliding_window_view(np.r_[np.zeros(width - 1), row], width).sum(axis=1)


# ------------------------------------------------------------------------------
# A run's readings as columns over steps, and two of them on common steps.


ENOUGH = 16  # steps that two runs must share, or else one is interpolated


class Key(NamedTuple):
    """What is read over steps."""

    site: str
    view: str
    form: str
    quantity: str


@dataclass(frozen=True, slots=True, eq=False)
class Trajectory:
    """One quantity at one place over the steps at which it was read.

    Attributes:
        steps: Ascending, each once.
        numbers: Value, low and high of each reading [3, n].
        hows: Route and risk of each.
    """

    steps: np.ndarray
    numbers: np.ndarray
    hows: tuple[tuple[str, float], ...]

    def estimate(self, place: int) -> Estimate:
        """The reading at one of the steps, counted from 0."""
        value, low, high = map(float, self.numbers[:, place])
        return Estimate(value, low, high, *self.hows[place])

    def at(self, places: np.ndarray) -> "Trajectory":
        """The same at some of its steps."""
        hows = tuple(self.hows[i] for i in places)
        return Trajectory(self.steps[places], self.numbers[:, places], hows)

    def between(self, steps: np.ndarray) -> "Trajectory":
        """Interpolated linearly in the steps, which lie within its own."""
        numbers = np.array([np.interp(steps, self.steps, row) for row in self.numbers])
        return Trajectory(steps, numbers, (("interpolated", 1.0),) * len(steps))


def trajectories(cells: Iterable[tuple[Any, ...]]) -> Mapping[Key, Trajectory]:
    """Readings of a run by what is read; of one that was filed again the last counts.

    Args:
        cells: Rows of the table of readings, as `Run.cells` gives them.
    """
    place = {name: 2 + i for i, name in enumerate(COLUMNS["readings"])}
    key = [place[name] for name in Key._fields]
    rest = [place[name] for name in ("value", "low", "high", "how", "risk")]
    found: dict[Key, dict[int, tuple[Any, ...]]] = {}
    for row in cells:
        found.setdefault(Key(*(row[i] for i in key)), {})[row[0]] = tuple(row[i] for i in rest)
    ordered = {}
    for what, rows in found.items():
        steps = sorted(rows)
        numbers = np.array([rows[s][:3] for s in steps], float).T
        hows = tuple(rows[s][3:] for s in steps)
        ordered[what] = Trajectory(np.array(steps, float), numbers, hows)
    return ordered


def on_common_steps(a: Trajectory, b: Trajectory) -> tuple[Trajectory, Trajectory, bool]:
    """Two trajectories at the steps that they share, or the second at those of the first.

    Returns:
        Both, and whether the second was interpolated: where fewer than `ENOUGH` steps are shared
        and neither has all of its steps among them.
    """
    shared, here, there = np.intersect1d(a.steps, b.steps, return_indices=True)
    if len(shared) >= min(ENOUGH, len(a.steps), len(b.steps)):
        return a.at(here), b.at(there), False
    inside = np.flatnonzero((a.steps >= b.steps[0]) & (a.steps <= b.steps[-1]))
    return a.at(inside), b.between(a.steps[inside]), True


def scaled(key: Key, *pair: Trajectory) -> tuple[np.ndarray, ...]:
    """The numbers of trajectories on the scale on which their quantity is drawn.

    A quantity of many decades goes by its natural logarithm, so that differences are relative;
    ends of intervals below zero go to minus infinity, where nothing is known.
    """
    known = quantities().get(key.quantity)
    log = known is not None and known.scale == "log"
    if not log or any((t.numbers[0] <= 0).any() for t in pair):
        return tuple(t.numbers for t in pair)
    with np.errstate(divide="ignore"):
        return tuple(np.log(np.maximum(t.numbers, 0)) for t in pair)


# ------------------------------------------------------------------------------
# From which step to which an alarm was in force.


@dataclass(frozen=True, slots=True)
class AlarmSpan:
    """An alarm of a run, from where it begins to where it ends.

    Attributes:
        finding: What was said when it began.
        begin: Step at which it began.
        end: Step at which it ended; None while it is in force.
    """

    finding: Finding
    begin: int
    end: int | None = None


def alarm_spans(findings: Iterable[Row[Finding]]) -> tuple[AlarmSpan, ...]:
    """The alarms of a run in the order in which they began.

    One that begins anew while it is in force, as after a restart, goes on.

    Args:
        findings: As a run file has them: those that begin, and notes named `"...-over"` that end
            the one of that name at that site.
    """
    spans: list[AlarmSpan] = []
    open_: dict[tuple[str, str], int] = {}  # places in the list
    for row in findings:
        finding: Finding = row.record
        name = finding.name.removesuffix(OVER)
        place = open_.get((name, finding.site))
        if name != finding.name:
            if place is not None:
                spans[place] = replace(spans[place], end=row.step)
                del open_[name, finding.site]
        elif place is None:
            open_[name, finding.site] = len(spans)
            spans.append(AlarmSpan(finding, row.step))
        else:
            spans[place] = AlarmSpan(finding, min(row.step, spans[place].begin))
    return tuple(sorted(spans, key=lambda span: span.begin))


# ------------------------------------------------------------------------------
# Where two runs part: which step, which layers, which quantity.


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
    any trajectory, as `limit` has it. Where intervals of two readings overlap they do not
    differ; quantities of many decades are compared by their logarithms. What the watch reads of
    itself is left out.

    Args:
        first: A run.
        second: Another, of the same model or one that shares layers with it.

    Raises:
        Damaged: If one of the files is.
    """
    both = [
        {key: t for key, t in trajectories(run.cells("readings")).items() if key.site != OWN}
        for run in (first, second)
    ]
    a, b = both
    common = {key: on_common_steps(a[key], b[key]) for key in a if key in b}
    tests = sum(max(0, len(x.steps) - 1) for x, _, _ in common.values())
    found = (_parted(key, x, y, tests) for key, (x, y, _) in common.items())
    sites = [{key.site for key in found} for found in both]
    only = (tuple(_only(a, sites[1])), tuple(_only(b, sites[0])))
    apart = [key for key in {*a} ^ {*b} if key.site in sites[0] & sites[1]]
    one, other = ({w.name: w.value for w in run.about()} for run in (first, second))
    unlike = (name for name in {**one, **other} if one.get(name) != other.get(name))

    # up to which step all is the same to the last bit, where it first is not, and what differs
    shared: set[int] = set()
    differing: dict[int, list[Key]] = {}
    for key, (x, y, interpolated) in common.items():
        if interpolated or key.form == MEANS:  # which losses are in a mean goes by the clock
            continue
        shared.update(map(int, x.steps))
        different = (x.numbers != y.numbers).any(axis=0)
        if different.any():
            differing.setdefault(int(x.steps[different.argmax()]), []).append(key)
    differs_at = min(differing, default=None)
    same = [step for step in shared if differs_at is None or step < differs_at]

    # alarms that only one of them raised
    spans = [alarm_spans(run.findings()) for run in (first, second)]
    name = lambda span: (span.finding.name, span.finding.site)
    raised = [{*map(name, each)} for each in spans]
    return Parting(
        runs=(str(first.path), str(second.path)),
        steps=(_last(a), _last(b)),
        same_until=max(same, default=None),
        differs_at=differs_at,
        differing=() if differs_at is None else tuple(differing[differs_at]),
        parted=tuple(sorted(filter(None, found), key=lambda p: (p.step, p.seen, -p.times))),
        window=WINDOW,
        limit=limit(WINDOW, tests) if tests else math.inf,
        compared=len(common),
        interpolated=sum(interpolated for *_, interpolated in common.values()),
        unjudged=sum(len(x.steps) < 2 for x, _, _ in common.values()),
        only=only,
        unmatched=len(apart),
        settings=tuple(Setting(name, one.get(name), other.get(name)) for name in unlike),
        alarms=(
            tuple(s for s in spans[0] if name(s) not in raised[1]),
            tuple(s for s in spans[1] if name(s) not in raised[0]),
        ),
        losses=(_loss(a)[0], _loss(b)[0]),
        loss_steps=(_loss(a)[1], _loss(b)[1]),
    )


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
