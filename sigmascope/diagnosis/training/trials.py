"""The user's run and those beside it: other rates, another optimiser, smaller batches."""

import math
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field, replace

from torch import nn

from sigmascope.diagnosis.programs.optimisers import DEFAULT_RATES, Recipe
from sigmascope.diagnosis.remedies.long_memory import LongMemory
from sigmascope.diagnosis.training.runs import Data, Run, scaled_inputs, started
from sigmascope.gate import Budget, OverBudget, time_words
from sigmascope.probes.execution import duplicate
from sigmascope.survey.task import least_losses, room_of

RATES = (0.1, 10.0, 0.01, 100.0)  # times the user's, in the order in which they are tried
PASSES = 8  # over the samples at hand that the user's settings get, however large the model
FEWEST, LEAST, MOST = 16, 60, 1000  # steps at least; with small batches; of small models
BESIDE = 10  # steps at least of every other setting
WORK = 4e9  # multiplications, forward, that a run of a small model may take
SHARE = 0.4  # of these steps for every other setting
GOOD = 0.5  # of the loss of the best constant that is left: training got under way
FORM = {0.01: "rate x 0.01", 0.1: "rate x 0.1", 10.0: "rate x 10", 100.0: "rate x 100"}
USUAL_LOWER, USUAL_HIGHER = "usual rate, lower", "usual rate, higher"
LOWER = (FORM[0.1], FORM[0.01], USUAL_LOWER)
HIGHER = (FORM[10.0], FORM[100.0], USUAL_HIGHER)
BEYOND = 300.0  # times the user's rate, or less than its inverse: out of reach of the rates above
DECAY, MOMENTUM = 0.02, 0.95  # above which weight decay and momentum are tried without, and at 0.9
CLIP = 0.01  # norm of the gradient below which it is tried without clipping
DECAYLESS, CALMER, UNCLIPPED = "no weight decay", "momentum 0.9", "no clipping"
SCALED = "scaled inputs"
REMEMBERING = "longer memory"
PLANNED, OTHER, BATCH = "as planned", "other optimiser", "smaller batch"


@dataclass(frozen=True, slots=True)
class Scale:
    """Between which losses training goes.

    Attributes:
        free: The least of all outputs.
        same: The least of one output for all samples.
    """

    free: float
    same: float

    @classmethod
    def of(cls, free: float, same: float, first: float, *, room: float) -> "Scale":
        """Of a task; where a constant fits it to `room`, `first` is the loss to beat."""
        return cls(free, same if same - free > room else first)

    def left(self, loss: float) -> float:
        """Share of the best constant's loss that is left; above 1 where it is worse."""
        room = self.same - self.free
        return (loss - self.free) / room if room > 0 and math.isfinite(room) else math.nan


@dataclass(frozen=True, slots=True)
class Trials:
    """The user's run and those beside it.

    Attributes:
        mine: At the user's settings.
        others: By what is different, in words.
        scale: Of losses.
        wanted: Steps at the user's settings; fewer were made where time ran out.
        left_out: What else would have been tried.
    """

    mine: Run
    others: dict[str, Run]
    scale: Scale
    wanted: int = 0
    left_out: list[str] = field(default_factory=list)


def steps_for(work: float, data: Data, planned: int | None) -> int:
    """Steps at the user's settings: more of small models, and no more than are planned."""
    base = min(max(PASSES * data.count // data.size, FEWEST), LEAST)
    afford = int(WORK / max(work * data.size, 1.0))
    return min(max(base, min(afford, MOST)), planned or MOST)


def tried(
    model: nn.Module,
    data: Data,
    recipe: Recipe,
    steps: int,
    *,
    clip: float | None,
    ends: tuple[float, float] | None = None,
    budget: Budget | None = None,
) -> Trials:
    """The runs, as many as are wanted to tell what would be better.

    At most two copies are there at once: the user's, without what only steps need, and another.

    Raises:
        OverBudget: If there is no time for 16 steps at the user's settings.
    """
    bench = _Bench(model, data, clip, budget or Budget(math.inf))
    mine = started(model, recipe, data.size, clip=clip)
    wanted = max(steps // mine.evaluations, min(steps, FEWEST))
    steps = bench.first(mine, wanted)
    output, first = mine.output(data), next(iter(mine.losses), math.nan)
    ends = ends or least_losses(data.loss, output, data.targets)
    scale = Scale.of(*ends, first, room=room_of(data.loss, output, data.targets, first))
    trials = Trials(mine, {}, scale, wanted)
    if scale.left(mine.after(steps)) < GOOD / 5:  # nothing could be much better
        return trials
    fewer = max(min(BESIDE, steps), int(SHARE * steps))
    for times in RATES:
        if _worth(times, trials):
            bench.beside(trials, FORM[times], recipe.at(times), data.size, fewer)
    _changed(bench, trials, recipe, fewer)
    beside = (*_far(recipe, trials), *_elsewhere(model, data, recipe, clip))
    for form, other, size in beside:
        with suppress(Exception):  # another optimiser may take no such gradients: it tells nothing
            bench.beside(trials, form, other, size, fewer * data.size // size)
    return trials


def _changed(bench: "_Bench", trials: Trials, recipe: Recipe, steps: int) -> None:
    """The same settings with inputs of unit size, and with a memory that lasts, where they can."""
    data = bench.data
    scaled = scaled_inputs(data)
    if scaled is not None:
        with suppress(Exception):  # a model may take no such inputs
            bench.beside(trials, SCALED, recipe, data.size, steps, scaled)
    with suppress(Exception):  # without recurrent layers there is none
        lasting = LongMemory().apply(bench.model, data.batch)
        bench.beside(trials, REMEMBERING, recipe, data.size, steps, model=lasting)


@dataclass(slots=True)
class _Bench:
    """Where runs are made.

    Attributes:
        model: That is copied.
        data: On which copies are trained.
        clip: Norm to which gradients are clipped.
        budget: Of all runs.
        pace: Seconds in which the user's settings pass a sample.
    """

    model: nn.Module
    data: Data
    clip: float | None
    budget: Budget
    pace: float = 0.0

    def first(self, mine: Run, steps: int) -> int:
        """The user's run, in half of the time; how many steps others are to be compared over."""
        half = Budget(max(self.budget.left, 1e-9) / 2, clock=self.budget.clock)
        with half.counting():
            mine.go_on(self.data, steps, half)
        mine.rest()
        if mine.finite and mine.steps < min(steps, FEWEST):
            raise OverBudget(
                f"Training at your settings must make {min(steps, FEWEST)} steps or more, got time "
                f"for {mine.steps} of them in half of the {time_words(2 * half.seconds)} that were "
                "left: allow more, `--budget 10min` (`budget=600` in Python)."
            )
        self.pace = half.used / max(mine.steps * mine.size, 1)
        return mine.steps if mine.finite else steps

    def beside(
        self,
        trials: Trials,
        form: str,
        recipe: Recipe,
        size: int,
        steps: int,
        data: Data | None = None,
        model: nn.Module | None = None,
    ) -> None:
        """Another run, of which the losses stay; left out where there is no time for it."""
        other = None
        if self.budget.left > self.pace * steps * size:
            clip = None if form == UNCLIPPED else self.clip
            other = started(model or self.model, recipe, size, clip=clip)
            other.go_on(data or self.data, steps, self.budget)
            other.forget()
        if other is not None and (other.steps >= steps or not other.finite):
            trials.others[form] = other
        else:
            trials.left_out.append(form)


def _worth(times: float, trials: Trials) -> bool:
    """The outer rates are tried where the one before them was better than the user's."""
    inner = {0.01: 0.1, 100.0: 10.0}.get(times)
    if inner is None:
        return True
    before = trials.others.get(FORM[inner])
    if before is None:  # it was left out
        return False
    return before.after(before.steps) < trials.mine.after(before.steps) or not before.finite


def _far(recipe: Recipe, trials: Trials) -> Iterator[tuple[str, Recipe, int]]:
    """The usual rate, where it is farther away than a hundred times and the way to it is better."""
    far, usual, size = usual_rate(recipe), at_usual(recipe), trials.mine.size
    higher = recipe.rate <= 0 or FORM[100.0] in trials.others
    if far > BEYOND * recipe.rate and higher:
        yield USUAL_HIGHER, usual, size
    if BEYOND * far < recipe.rate and FORM[0.01] in trials.others:
        yield USUAL_LOWER, usual, size


def usual_rate(recipe: Recipe) -> float:
    """0.1 of plain SGD, and less with momentum, by which steps grow; of others torch's own."""
    if recipe.family == "adam":
        return DEFAULT_RATES.get(recipe.name, 1e-3)
    return 0.1 * (1 - min(float(recipe.options.get("momentum", 0.0)), 0.99))


def at_usual(recipe: Recipe) -> Recipe:
    """The same at its usual rate; of rates that are zero every group gets it."""
    rate = usual_rate(recipe)
    if recipe.rate > 0:
        return recipe.at(rate / recipe.rate)
    return replace(recipe.having(lr=rate), rate=rate)


def _elsewhere(
    model: nn.Module, data: Data, recipe: Recipe, clip: float | None
) -> Iterator[tuple[str, Recipe, int]]:
    """Another family of optimisers at its usual rate, and smaller batches where there are few."""
    group = recipe.make(duplicate(model)).param_groups[0]
    if group.get("weight_decay", 0.0) > DECAY:
        yield DECAYLESS, recipe.having(weight_decay=0.0), data.size
    if group.get("momentum", 0.0) > MOMENTUM:
        yield CALMER, recipe.having(momentum=0.9), data.size
    if clip is not None and clip < CLIP:
        yield UNCLIPPED, recipe, data.size
    yield OTHER, other_family(recipe), data.size
    if data.size >= 8 and 4 * data.size > data.count:  # few steps in an epoch
        yield BATCH, recipe, data.size // 8


def other_family(recipe: Recipe) -> Recipe:
    """Adam in place of SGD, SGD with momentum in place of all others, at their usual rates."""
    return (
        Recipe("adam", 1e-3) if recipe.family == "sgd" else Recipe("sgd", 0.01, {"momentum": 0.9})
    )
