"""What training shows of a user's settings, from some dozens of steps at them and beside them."""

import math
from collections.abc import Iterator
from dataclasses import replace

from torch import nn

from sigmascope.core import quantities as q
from sigmascope.core.guard import Budget, OverBudget, Refusal, time_words
from sigmascope.core.quantities import View
from sigmascope.core.records import Estimate, Fact, Item, Reading, Skipped
from sigmascope.diagnosis.programs.optimizers import Recipe, unusual_settings
from sigmascope.diagnosis.rules.training import PLANNED
from sigmascope.diagnosis.trainability.forecasts import forecast
from sigmascope.diagnosis.training.runs import (
    FLOOR,
    StepFailed,
    TrainingRun,
    TrainingSamples,
    chance_below,
    falling,
    score_of,
    work_of,
)
from sigmascope.diagnosis.training.trials import Scale, Trials, steps_for, tried
from sigmascope.models.layers import in_words
from sigmascope.models.state import still

VIEW: View = "training"
SITE, STEP = "(training)", "(a training step)"
OURS = "a limit of sigmascope, not of the program: {}"
IDLE = "after the run at your settings nothing that they show could change what is found"
HALVED = "by then they were no better than your settings"
ROOM = 5  # times the budget, that is proposed where it was too small
FITS = 1200  # steps, where no plan is known
CHANCE = q.PROBABILITY_AT_YOUR_SETTINGS


def training_items(
    model: nn.Module,
    data: TrainingSamples,
    recipe: Recipe,
    *,
    planned: int | None,
    clip: float | None = None,
    ends: tuple[float, float] | None = None,
    budget: Budget | None = None,
    unseen: TrainingSamples | None = None,
    kept: int = 0,
) -> Iterator[Item]:
    """Readings of training at a user's settings and beside them.

    Args:
        model: At its initial weights; left as it is.
        data: Samples at hand.
        recipe: The user's optimizer.
        planned: Steps that the user means to make; None if it is not known.
        clip: Norm to which gradients are clipped.
        ends: The least losses of all outputs and of a constant; searched for if not given.
        budget: Of time for all steps; without end if not given. What there was no time for is said.
        unseen: Other samples, which are not trained on, if there are more than those at hand.
        kept: Passes over the samples that are to follow: the user's run aside, nothing takes the
            time that they need, if the budget has any for them.

    Cost: 8 passes over the samples for the user's settings and about 12 for the others; small
    models get up to 1000 steps.
    """
    steps = steps_for(work_of(model, data), data, planned)
    budget = budget or Budget(math.inf)
    try:
        with budget.counting(), still(model):
            told = {"clip": clip, "ends": ends, "budget": budget, "unseen": unseen, "kept": kept}
            trials = tried(model, data, recipe, steps, planned=planned, **told)
        with still(model):  # what copies are run on once more may draw random numbers
            found = [*_readings(trials, data, planned)]
    except OverBudget as error:
        yield Skipped(SITE, "training", str(error))
        return
    except StepFailed as error:
        yield Skipped(STEP, "training", str(error))
        return
    except Exception as error:  # noqa: BLE001 (whatever it is, it is no fault of the program's)
        yield Skipped(SITE, "training", OURS.format(in_words(error)))
        return
    yield from found
    # what there was no time for
    do = (
        f"a budget of {time_words(budget.seconds)} had no time for more: allow it, "
        f"`--budget {time_words(ROOM * budget.seconds)}` (`budget={ROOM * budget.seconds:.0f}` in "
        "Python)"
    )
    made, wanted = trials.mine.steps, trials.wanted
    if trials.mine.finite and made < wanted:
        yield Skipped(SITE, "more steps", f"{made} of {wanted} steps were made, {do}")
    if trials.left_out:
        yield Skipped(SITE, "other settings", f"{', '.join(trials.left_out)} were not tried, {do}")
    if trials.idle:
        yield Skipped(SITE, "other settings", f"{', '.join(trials.idle)} were not tried: {IDLE}")
    if trials.halved:
        yield Skipped(SITE, "more steps", f"{', '.join(trials.halved)} ended half-way: {HALVED}")


def _readings(trials: Trials, data: TrainingSamples, planned: int | None) -> Iterator[Item]:
    mine, scale = trials.mine, trials.scale
    if any(g.get("maximize") for g in mine.optimizer.param_groups):
        yield Fact(SITE, q.MAXIMISES, VIEW)
    for name, usual in unusual_settings(mine.optimizer).items():
        given = mine.optimizer.param_groups[0][name]
        yield Fact(SITE, q.UNUSUAL_SETTINGS, VIEW, f"{name} {given}, usually {usual}")
    held = {id(p) for g in mine.optimizer.param_groups for p in g["params"]}
    handed_over = [id(p) in held for p in mine.model.parameters() if p.requires_grad]
    if left_out := handed_over.count(False):
        yield Reading(SITE, q.WEIGHTS_LEFT_OUT, Estimate.exactly(left_out), VIEW, PLANNED)
        count = Estimate.exactly(handed_over.count(True))
        yield Reading(SITE, q.WEIGHTS_HELD, count, VIEW, PLANNED)
    for form, left in trials.errors.items():
        if math.isfinite(left):
            yield Reading(SITE, q.ERROR_LEFT, Estimate.exactly(max(left, 0.0)), VIEW, form)
    if trials.loose:
        count = Estimate.exactly(len(trials.loose))
        yield Reading(SITE, q.WEIGHTS_THAT_NO_MODULE_HOLDS, count, VIEW, trials.loose[0])
    yield Reading(SITE, q.STEPS_TRIED, Estimate.exactly(mine.steps), VIEW, PLANNED)
    if planned is not None:
        yield Reading(SITE, q.PLANNED_STEPS, Estimate.exactly(planned), VIEW, PLANNED)
    yield from _left(mine, scale, mine.steps, PLANNED)
    for form, other in trials.others.items():
        yield from _left(other, scale, other.steps, form)
        at_same = max(1, round(other.steps * other.size / mine.size))
        then = scale.left(mine.after(min(at_same, mine.steps)))
        if math.isfinite(then):
            yield Reading(SITE, q.LOSS_LEFT_BY_THEN, Estimate.exactly(max(then, 0.0)), VIEW, form)
    slope = falling(mine)
    if slope is not None:
        yield Reading(SITE, q.LAST_FALL_OF_THE_LOSS, slope, VIEW, PLANNED)
    for form, run in ((PLANNED, mine), *trials.others.items()):
        beyond = max(scale.left(run.elsewhere), 0.0)
        if math.isfinite(beyond):
            yield Reading(SITE, q.LOSS_LEFT_ON_OTHERS, Estimate.exactly(beyond), VIEW, form)
    left = max(scale.left(mine.elsewhere), 0.0)
    elsewhere = left if math.isfinite(left) else None
    yield from _foretold(mine, scale, planned, elsewhere)
    score = score_of(mine, data)
    if score is not None:
        yield Reading(SITE, q.SCORE, Estimate.exactly(score), VIEW, PLANNED)


def _foretold(
    run: TrainingRun, scale: Scale, planned: int | None, elsewhere: float | None
) -> Iterator[Item]:
    """What is left at the end of the plan, and the probability that training is under way by then.

    Where no plan is known, the end is that by which networks were said to fit: 1200 steps. Training
    on all samples leaves no less than on some of them, which may be learned by heart, and about no
    more than these leave on others: the lower end of the probability is that of `elsewhere`.
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
        yield Reading(SITE, q.LOSS_LEFT_AT_THE_END, left, VIEW, PLANNED)
    chance = chance_below(left)
    if elsewhere is not None and elsewhere > left.value:
        least = chance_below(replace(left, value=elsewhere, low=elsewhere, high=elsewhere)).value
        how = f"{chance.how}; the lower end by what is left on samples that it was not trained on"
        chance = replace(chance, low=min(chance.low, least), how=how)
    yield Reading(SITE, CHANCE, chance, VIEW, PLANNED)


def _left(run: TrainingRun, scale: Scale, steps: int, form: str) -> Iterator[Item]:
    left = scale.left(run.after(max(steps, 1))) if run.finite else math.inf
    if not run.finite:
        yield Reading(SITE, q.BROKE_AT_STEP, Estimate.exactly(run.steps), VIEW, form)
    elif math.isfinite(left):
        yield Reading(SITE, q.RATE, Estimate.exactly(run.recipe.rate), VIEW, form)
        yield Reading(SITE, q.LOSS_LEFT, Estimate.exactly(max(left, 0.0)), VIEW, form)
