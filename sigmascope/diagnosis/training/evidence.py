"""What training shows of a user's settings, from some dozens of steps at them and beside them."""

import math
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, replace

import torch
from torch import nn

from sigmascope.diagnosis.programs.optimisers import DEFAULT_RATES, Recipe
from sigmascope.diagnosis.trainability.forecasts import forecast
from sigmascope.diagnosis.training.runs import Data, Run, started, work_of
from sigmascope.diagnosis.training.scores import FLOOR, chance_below, score_of
from sigmascope.gate import Refusal
from sigmascope.probes.execution import duplicate, still
from sigmascope.records import Estimate, Item, Reading, View
from sigmascope.survey.task import least_losses

VIEW: View = "training"
SITE = "(training)"
RATES = (0.1, 10.0, 0.01, 100.0)  # times the user's, in the order in which they are tried
PASSES = 8  # over the samples at hand that the user's settings get, however large the model
FEWEST, LEAST, MOST = 16, 60, 1000  # steps at least; with small batches; of small models
BESIDE = 10  # steps at least of every other setting
WORK = 4e9  # multiplications, forward, that a run of a small model may take
SHARE = 0.4  # of these steps for every other setting
FITS = 1200  # steps, where no plan is known
CHANCE = "probability at your settings"
GOOD = 0.5  # of the loss of the best constant that is left: training got under way
FORM = {0.01: "rate x 0.01", 0.1: "rate x 0.1", 10.0: "rate x 10", 100.0: "rate x 100"}
USUAL_LOWER, USUAL_HIGHER = "usual rate, lower", "usual rate, higher"
LOWER = (FORM[0.1], FORM[0.01], USUAL_LOWER)
HIGHER = (FORM[10.0], FORM[100.0], USUAL_HIGHER)
BEYOND = 300.0  # times the user's rate, or less than its inverse: out of reach of the rates above
ROOM = 1e-6  # share of the first loss that a constant must leave, to be compared with
DECAY, MOMENTUM = 0.02, 0.95  # above which weight decay and momentum are tried without, and at 0.9
DECAYLESS, CALMER = "no weight decay", "momentum 0.9"
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
    def of(cls, free: float, same: float, first: float) -> "Scale":
        """Of a task; where a constant fits it, as a single sample, `first` is the loss to beat."""
        return cls(free, same if same - free > ROOM * abs(first) else first)

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
    """

    mine: Run
    others: dict[str, Run]
    scale: Scale


def training_items(
    model: nn.Module,
    data: Data,
    recipe: Recipe,
    *,
    planned: int | None,
    clip: float | None = None,
    ends: tuple[float, float] | None = None,
) -> Iterator[Item]:
    """Readings of training at a user's settings and beside them.

    Args:
        model: At its initial weights; left as it is.
        data: Samples at hand.
        recipe: The user's optimiser.
        planned: Steps that the user means to make; None if it is not known.
        clip: Norm to which gradients are clipped.
        ends: The least losses of all outputs and of a constant; searched for if not given.

    Cost: 8 passes over the samples for the user's settings and about 12 for the others; small
    models get up to 1000 steps.
    """
    steps = steps_for(work_of(model, data), data, planned)
    with still(model):
        trials = tried(model, data, recipe, steps, clip=clip, ends=ends)
    yield from _readings(trials, data, planned)


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
) -> Trials:
    """The runs, as many as are wanted to tell what would be better."""
    mine = started(model, recipe, data.size, clip=clip)
    steps = max(steps // mine.evaluations, min(steps, FEWEST))
    mine.go_on(data, steps)
    ends = ends or least_losses(data.loss, mine.output(data), data.targets)
    scale = Scale.of(*ends, next(iter(mine.losses), math.nan))
    others: dict[str, Run] = {}
    trials = Trials(mine, others, scale)
    if scale.left(mine.after(steps)) < GOOD / 5:  # nothing could be much better
        return trials
    fewer = max(min(BESIDE, steps), int(SHARE * steps))
    for times in RATES:
        if _worth(times, trials):
            others[FORM[times]] = started(model, recipe.at(times), data.size, clip=clip)
            others[FORM[times]].go_on(data, fewer)
    for form, other, size in (*_far(recipe, trials), *_elsewhere(model, data, recipe)):
        beside = started(model, other, size, clip=clip)
        with suppress(Exception):  # another optimiser may take no such gradients: it tells nothing
            beside.go_on(data, fewer * data.size // size)
            others[form] = beside
    return trials


def _worth(times: float, trials: Trials) -> bool:
    """The outer rates are tried where the one before them was better than the user's."""
    inner = {0.01: 0.1, 100.0: 10.0}.get(times)
    if inner is None:
        return True
    before = trials.others[FORM[inner]]
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


def _elsewhere(model: nn.Module, data: Data, recipe: Recipe) -> Iterator[tuple[str, Recipe, int]]:
    """Another family of optimisers at its usual rate, and smaller batches where there are few."""
    group = recipe.make(duplicate(model)).param_groups[0]
    if group.get("weight_decay", 0.0) > DECAY:
        yield DECAYLESS, recipe.having(weight_decay=0.0), data.size
    if group.get("momentum", 0.0) > MOMENTUM:
        yield CALMER, recipe.having(momentum=0.9), data.size
    yield OTHER, other_family(recipe), data.size
    if data.size >= 8 and 4 * data.size > data.count:  # few steps in an epoch
        yield BATCH, recipe, data.size // 8


def other_family(recipe: Recipe) -> Recipe:
    """Adam in place of SGD, SGD with momentum in place of all others, at their usual rates."""
    return (
        Recipe("adam", 1e-3) if recipe.family == "sgd" else Recipe("sgd", 0.01, {"momentum": 0.9})
    )


def _readings(trials: Trials, data: Data, planned: int | None) -> Iterator[Item]:
    mine, scale = trials.mine, trials.scale
    left_out = _left_out(mine)
    if left_out:
        yield Reading(SITE, "weights left out", Estimate.exactly(left_out), VIEW, PLANNED)
    yield Reading(SITE, "steps tried", Estimate.exactly(mine.steps), VIEW, PLANNED)
    if planned is not None:
        yield Reading(SITE, "planned steps", Estimate.exactly(planned), VIEW, PLANNED)
    yield from _left(mine, scale, mine.steps, PLANNED)
    for form, other in trials.others.items():
        yield from _left(other, scale, other.steps, form)
        at_same = max(1, round(other.steps * other.size / mine.size))
        then = scale.left(mine.after(min(at_same, mine.steps)))
        if math.isfinite(then):
            yield Reading(SITE, "loss left by then", Estimate.exactly(max(then, 0.0)), VIEW, form)
    slope = falling(mine)
    if slope is not None:
        yield Reading(SITE, "last fall of the loss", slope, VIEW, PLANNED)
    yield from _foretold(mine, scale, planned)
    score = score_of(mine, data)
    if score is not None:
        yield Reading(SITE, "score", Estimate.exactly(score), VIEW, PLANNED)


def _left_out(run: Run) -> int:
    """Parameters that require gradients and that the optimiser does not hold."""
    held = {id(p) for g in run.optimiser.param_groups for p in g["params"]}
    return sum(p.requires_grad and id(p) not in held for p in run.model.parameters())


def _foretold(run: Run, scale: Scale, planned: int | None) -> Iterator[Item]:
    """What is left at the end of the plan, and the probability that training is under way by then.

    Where no plan is known, the end is that by which networks were said to fit: 1200 steps.
    """
    if not run.finite:
        yield Reading(SITE, CHANCE, Estimate.exactly(FLOOR), VIEW, PLANNED)
        return
    end = planned or FITS
    left = Estimate.exactly(max(scale.left(run.after(run.steps)), 0.0))
    if end > run.steps:
        try:
            told = forecast(run.losses, end, constant=scale.same, floor=scale.free)
        except Refusal:  # too few steps, or a loss that has no scale
            return
        ends = [max(scale.left(x), 0.0) for x in (told.low, told.value, told.high)]
        left = Estimate(ends[1], ends[0], ends[2], told.how, told.risk)
    if not math.isfinite(left.value):
        return
    if planned is not None:
        yield Reading(SITE, "loss left at the end", left, VIEW, PLANNED)
    yield Reading(SITE, CHANCE, chance_below(left), VIEW, PLANNED)


def _left(run: Run, scale: Scale, steps: int, form: str) -> Iterator[Item]:
    left = scale.left(run.after(max(steps, 1))) if run.finite else math.inf
    if not run.finite:
        yield Reading(SITE, "broke at step", Estimate.exactly(run.steps), VIEW, form)
    elif math.isfinite(left):
        yield Reading(SITE, "rate", Estimate.exactly(run.recipe.rate), VIEW, form)
        yield Reading(SITE, "loss left", Estimate.exactly(max(left, 0.0)), VIEW, form)


def falling(run: Run) -> Estimate | None:
    """Share of the loss that the last half of the steps took off, with its standard errors."""
    seen = run.losses[len(run.losses) // 2 :]
    if len(seen) < 8:
        return None
    half = len(seen) // 2
    a, b = (torch.tensor(part, dtype=torch.float64) for part in (seen[:half], seen[half:]))
    size = float(a.abs().mean())
    if not size > 0:
        return None
    gap = 2 * float((a.var() / len(a) + b.var() / len(b)).sqrt()) / size
    return replace(Estimate.within(float(a.mean() - b.mean()) / size, gap), risk=0.05)
