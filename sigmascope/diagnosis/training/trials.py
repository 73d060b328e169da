"""The user's run and those beside it: other rates, another optimizer, smaller batches."""

import math
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor, nn

from sigmascope.core.guard import Budget, OverBudget, random_states, time_words
from sigmascope.diagnosis.programs.optimizers import DEFAULT_RATES, Recipe, unusual_settings
from sigmascope.diagnosis.programs.outputs import Joint, holding, joint_in
from sigmascope.diagnosis.remedies.long_memory import LongMemory
from sigmascope.diagnosis.rules.training import (
    ALONE,
    BATCH,
    CALMER,
    DECAYLESS,
    FALLS,
    FORM,
    GOOD,
    LEARNS,
    OTHER,
    PLANNED,
    REGISTERED,
    REMEMBERING,
    SCALED,
    STUCK,
    UNCLIPPED,
    UNFROZEN,
    USUAL,
    USUAL_HIGHER,
    USUAL_LOWER,
    read_beside,
)
from sigmascope.diagnosis.training.runs import (
    TrainingRun,
    TrainingSamples,
    falling,
    in_batches,
    scaled_inputs,
    started,
)
from sigmascope.models.layers import called
from sigmascope.models.samples import as_tensor
from sigmascope.models.state import duplicate, reached, still
from sigmascope.survey.task import UNBOUNDED, labels_of, least_losses, room_of

RATES = (0.1, 10.0, 0.01, 100.0)  # times the user's, in the order in which they are tried
PASSES = 8  # over the samples at hand that the user's settings get, however large the model
FEWEST, LEAST, MOST = 16, 60, 1000  # steps at least; with small batches; of small models
BESIDE = 10  # steps at least of every other setting
WORK = 4e9  # multiplications, forward, that a run of a small model may take
SHARE = 0.4  # of these steps for every other setting
BEYOND = 300.0  # times the user's rate, or less than its inverse: out of reach of the rates above
DECAY = 0.02  # above which it is tried without
CLIP = 0.01  # norm of the gradient below which it is tried without clipping
LATER = 128  # steps up to which a run that learns nothing goes on, until it does
LOOK = 8  # steps after which it is asked whether it does


@dataclass(frozen=True, slots=True)
class Scale:
    """Between which losses training goes.

    Attributes:
        free: The least of all outputs; of a loss that nothing holds from below, or whose least
            outputs no data allow, the least that any run has come to.
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
        left_out: What else would have been tried, had there been time.
        idle: What was not tried because no rule would have read it.
        halved: Which of the others were ended half-way, for they were no better by then.
        loose: Trainable tensors that the loss depends on and that are no parameters of the model.
        weighed: A loss of several outputs, one of which it compares with the targets.
        errors: What runs leave of that comparison alone, by their form.
    """

    mine: TrainingRun
    others: dict[str, TrainingRun]
    scale: Scale
    wanted: int = 0
    left_out: list[str] = field(default_factory=list)
    idle: list[str] = field(default_factory=list)
    halved: list[str] = field(default_factory=list)
    loose: tuple[str, ...] = ()
    weighed: "Weighed | None" = None
    errors: dict[str, float] = field(default_factory=dict)

    def error_left(self, run: TrainingRun) -> float:
        """What a run leaves of the part of the loss that compares outputs with targets."""
        if self.weighed is None or not run.finite or not run.steps:
            return math.nan
        return self.weighed.left(run.output(self.weighed.data))


def steps_for(work: float, data: TrainingSamples, planned: int | None) -> int:
    """Steps at the user's settings: more of small models, and no more than are planned."""
    base = min(max(PASSES * data.count // data.size, FEWEST), LEAST)
    afford = int(WORK / max(work * data.size, 1.0))
    return min(max(base, min(afford, MOST)), planned or MOST)


def tried(
    model: nn.Module,
    data: TrainingSamples,
    recipe: Recipe,
    steps: int,
    *,
    clip: float | None,
    ends: tuple[float, float] | None = None,
    budget: Budget | None = None,
    planned: int | None = None,
    unseen: TrainingSamples | None = None,
    kept: int = 0,
) -> Trials:
    """The runs, as many as are wanted to tell what would be better.

    At most two copies are there at once: the user's, without what only steps need, and another.

    Raises:
        OverBudget: If there is no time for 16 steps at the user's settings.
    """
    mine = started(model, recipe, data.size, clip=clip)
    output = mine.output(data)
    given, data = data, in_batches(data, output)
    if unseen is not None:
        unseen = replace(unseen, loss=data.loss, alone=data.alone)
    bench = _Bench(model, data, clip, budget or Budget(math.inf), unseen=unseen)
    wanted = max(steps // mine.evaluations, min(steps, FEWEST))
    steps = bench.first(mine, wanted)
    first = next(iter(mine.losses), math.nan)
    joint = joint_in(model)
    rows = slice(0, None if data.alone else data.size)
    with holding(joint, output[rows]):
        if ends is None or data.loss is not given.loss or not data.alone:
            ends = least_losses(data.loss, output[rows], data.targets[rows])
        room = room_of(data.loss, output[rows], data.targets[rows], first)
    # whether the least loss of all outputs says nothing of what can be learned, as where there is
    # none (a density), or outputs answer for what targets hold one of each (actions and rewards)
    open_ended = any(_is_endless(end, first) for end in ends)
    if not open_ended:
        labels = labels_of(output, data.targets)
        known = labels is not None and (labels.wanted is not None or labels.kind == "classes")
        apart = data.targets.numel() != output.numel() and data.targets.shape != output.shape
        open_ended = not known and apart and data.targets.numel() > len(data.targets)
    if open_ended:
        same = first if _is_endless(ends[1], first) else ends[1]
        ends = (min(same, first) - max(abs(first), abs(same)), same)
    scale = Scale.of(*ends, first, room=room)
    whole = mine.finite and mine.steps >= wanted  # not where time ran out
    if whole and scale.left(mine.after(steps)) >= STUCK and mine.steps < LATER:
        wanted = max(wanted, min(LATER, planned or LATER) // mine.evaluations)

        def learns() -> bool:
            """Whether enough is learned that more steps would tell nothing else."""
            if open_ended or mine.steps % LOOK or scale.left(mine.after(mine.steps)) >= STUCK:
                return False
            return scale.left(bench.beyond(mine)) < LEARNS

        steps = bench.first(mine, wanted, learns)
        wanted = mine.steps if learns() else wanted
    mine.rest()
    later = bench.pace * kept * data.count
    bench.later = later if later < bench.budget.left else 0.0
    loose: tuple[str, ...] = ()
    with suppress(Exception):  # a batch of the user's size may not be had
        loose = tuple(loose_weights(duplicate(model), data))
    weighed = None
    with suppress(Exception):  # a part of a loss may take nothing that is made up
        weighed = Weighed.of(data, joint, output)
    trials = Trials(mine, {}, scale, wanted, loose=loose, weighed=weighed)
    trials.errors[PLANNED] = trials.error_left(mine)
    if scale.left(mine.after(steps)) < GOOD / 5:  # nothing could be much better
        trials.idle.extend((FORM[0.1], FORM[10.0], OTHER))
        return trials
    if not open_ended:  # where the least of all runs is part of the scale each of them counts
        fall, left = falling(mine), scale.left(mine.after(mine.steps))
        whole = mine.steps >= (planned or math.inf)
        told = {"falling": fall is not None and fall.low > FALLS, "whole": whole}
        bench.read = lambda form: read_beside(form, left, **told)
    fewer = max(min(BESIDE, steps), int(SHARE * steps))
    for times in RATES:
        if _worth(times, trials):
            bench.beside(trials, FORM[times], recipe.at(times), data.size, fewer)
    _changed(bench, trials, recipe, fewer)
    # the usual rate, where it is farther away than a hundred times and the way to it is better
    far, usual, beside = usual_rate(recipe), at_usual(recipe), list[tuple[str, Recipe, int]]()
    if far > BEYOND * recipe.rate and (recipe.rate <= 0 or FORM[100.0] in trials.others):
        beside.append((USUAL_HIGHER, usual, mine.size))
    if BEYOND * far < recipe.rate and FORM[0.01] in trials.others:
        beside.append((USUAL_LOWER, usual, mine.size))
    beside += _elsewhere(model, data, recipe, clip)
    for form, other, size in beside:
        with suppress(Exception):  # another optimizer may take no such gradients: it tells nothing
            bench.beside(trials, form, other, size, fewer * data.size // size)
    if not open_ended:
        return trials
    # between a constant's loss and the least that any run has come to
    runs = [r for r in (mine, *trials.others.values()) if r.finite and r.steps]
    least = min((r.after(r.steps) for r in runs), default=scale.same)
    strays = [
        torch.tensor(r.losses[-len(r.losses) // 4 :]).std().item() for r in runs if r.steps > 8
    ]
    noise = 3 * min(strays, default=0.0) / 2
    free = min(least, scale.same - max(room, noise, 1e-12))
    return replace(trials, scale=Scale(free, scale.same))


def _is_endless(end: float, first: float) -> bool:
    """Whether nothing seems to hold a loss."""
    return not math.isfinite(end) or end < first - UNBOUNDED * (1 + abs(first))


def _changed(bench: "_Bench", trials: Trials, recipe: Recipe, steps: int) -> None:
    """The same settings with one thing changed that is no setting, where it can be.

    The copies that it makes are gone when it returns.
    """
    data, model = bench.data, bench.model
    scaled = scaled_inputs(data)
    if scaled is not None:
        with suppress(Exception):  # a model may take no such inputs
            bench.beside(trials, SCALED, recipe, data.size, steps, scaled)
    with suppress(Exception):  # without recurrent layers there is none
        lasting = LongMemory().apply(model, data.batch)
        bench.beside(trials, REMEMBERING, recipe, data.size, steps, model=lasting)
    if any(not p.requires_grad and p.is_floating_point() for p in model.parameters()):
        with suppress(Exception):  # an optimizer of some parameters may hold no others
            thawed = duplicate(model).requires_grad_()
            bench.beside(trials, UNFROZEN, recipe.of_all(), data.size, steps, model=thawed)
    if trials.loose:
        with suppress(Exception):
            whole = duplicate(model)
            for i, weight in enumerate(loose_weights(whole, data).values()):
                whole.register_parameter(f"loose_{i}", weight)
            bench.beside(trials, REGISTERED, recipe.of_all(), data.size, steps, model=whole)
    if trials.weighed is not None and trials.error_left(trials.mine) >= STUCK:
        with suppress(Exception):
            alone = replace(data, loss=trials.weighed.alone)
            bench.beside(trials, ALONE, recipe, data.size, steps, alone)


def loose_weights(model: nn.Module, data: TrainingSamples) -> dict[str, nn.Parameter]:
    """Trainable tensors of a model that its loss depends on and that are none of its parameters.

    Args:
        model: Run once, for a batch of the user's size.
        data: What it is run on.

    Returns:
        By the place where a model holds them, as `layers.0.weight` of a list `layers`.
    """
    batch, targets = next(data.draws(data.size))
    with random_states(), still(model), torch.enable_grad():
        value = data.loss(as_tensor(called(model, batch))[0], targets)
    read, left = set[int](), [value.grad_fn]
    seen = set[Any]()
    while left:
        node = left.pop()
        if node is not None and node not in seen:
            seen.add(node)
            read.add(id(getattr(node, "variable", None)))
            left += [after for after, _ in node.next_functions]
    own = {id(p) for p in model.parameters()}
    held = ((n, t) for n, t in reached(model) if isinstance(t, Tensor) and id(t) in read - own)
    return {
        name: t for name, t in sorted(held, key=lambda pair: pair[0]) if isinstance(t, nn.Parameter)
    }


@dataclass(frozen=True, slots=True)
class Weighed:
    """A loss of several outputs, one of which it compares with the targets.

    Attributes:
        data: With the loss, of the outputs side by side.
        joint: What joins the outputs.
        own: Which columns are compared with the targets.
        before: All of them before training.
        ends: The least of that part of the loss, and that of one output for all samples.
    """

    data: TrainingSamples
    joint: Joint | None
    own: Tensor
    before: Tensor
    ends: tuple[float, float]

    @classmethod
    def of(cls, data: TrainingSamples, joint: Joint | None, output: Tensor) -> "Weighed | None":
        """None where the loss reads one output, or compares none or all with the targets."""
        own = None if joint is None else joint.columns_like(data.targets)
        if own is None or output.ndim != 2 or len(own) != output.shape[1]:
            return None
        own, before = own.to(output.device), output.detach()
        compared = lambda part, y: data.loss(_placed(before, own, part), y)
        with holding(joint, output):
            ends = least_losses(compared, before[:, own], data.targets)
        return cls(data, joint, own, before, ends)

    def alone(self, output: Tensor, targets: Tensor) -> Tensor:
        """The same loss, without the gradients of what is not compared."""
        with holding(self.joint, output):
            return self.data.loss(torch.where(self.own, output, output.detach()), targets)

    def left(self, output: Tensor) -> float:
        """What is left of the compared part, over what its best constant leaves."""
        made = _placed(self.before, self.own, output[:, self.own])
        with holding(self.joint, output):
            now = float(self.data.loss(made, self.data.targets))
        free, same = self.ends
        return (
            (now - min(free, now)) / (same - min(free, now)) if same > min(free, now) else math.nan
        )


def _placed(whole: Tensor, own: Tensor, part: Tensor) -> Tensor:
    """Some columns of outputs, among the others as they were."""
    made = whole.clone()
    made[:, own] = part.to(made.dtype)
    return made


@dataclass(slots=True)
class _Bench:
    """Where runs are made.

    Attributes:
        model: That is copied.
        data: On which copies are trained.
        clip: Norm to which gradients are clipped.
        budget: Of all runs.
        pace: Seconds in which the user's settings pass a sample.
        unseen: Samples that no run is trained on, if there are any.
        later: Seconds that runs beside the user's leave for what is to follow.
        read: Whether a rule would read a run, by its name.
    """

    model: nn.Module
    data: TrainingSamples
    clip: float | None
    budget: Budget
    pace: float = 0.0
    unseen: TrainingSamples | None = None
    later: float = 0.0
    read: Callable[[str], bool] = lambda _: True

    def first(
        self, mine: TrainingRun, steps: int, enough: Callable[[], bool] = lambda: False
    ) -> int:
        """The user's run, in half of the time; how many steps others are to be compared over."""
        share, before = max(self.budget.left, 1e-9) / 2, mine.steps
        half = Budget(share, progress=self.budget.progress, clock=self.budget.clock)
        with half.counting():
            mine.go_on(self.data, steps, half, says="training at your settings", enough=enough)
        mine.elsewhere = self.beyond(mine)
        if mine.finite and mine.steps < min(steps, FEWEST):
            raise OverBudget(
                f"Training at your settings must make {min(steps, FEWEST)} steps or more, got time "
                f"for {mine.steps} of them in half of the {time_words(2 * half.seconds)} that were "
                "left: allow more, `--budget 10min` (`budget=600` in Python)."
            )
        if mine.steps > before:
            self.pace = half.used / ((mine.steps - before) * mine.size)
        return mine.steps if mine.finite else steps

    def beside(
        self,
        trials: Trials,
        form: str,
        recipe: Recipe,
        size: int,
        steps: int,
        data: TrainingSamples | None = None,
        model: nn.Module | None = None,
    ) -> None:
        """Another run, of which the losses stay; left out where there is no time or use for it."""
        if not self.read(form):
            trials.idle.append(form)
            return
        other: TrainingRun | None = None
        if self.budget.left - self.later > self.pace * steps * size:
            clip = None if form == UNCLIPPED else self.clip
            other = started(model or self.model, recipe, size, clip=clip)

            def behind() -> bool:
                """Whether a rate, half-way, is no better than the user's, then and at the end."""
                if form not in FORM.values() or other.steps != steps // 2:
                    return False
                mine = trials.mine
                best = max(mine.after(k) for k in (other.steps, mine.steps))
                return other.finite and other.after(other.steps) >= best

            how = {"says": f"training, {form}", "enough": behind}
            other.go_on(data or self.data, steps, self.budget, **how)
            if behind():
                trials.halved.append(form)
            if data is None:
                other.elsewhere = self.beyond(other)
            if form == ALONE:
                trials.errors[form] = trials.error_left(other)
            other.forget()
        whole = other is not None and (other.steps >= steps or not other.finite)
        if other is not None and (whole or form in trials.halved):
            trials.others[form] = other
        else:
            trials.left_out.append(form)

    def beyond(self, run: TrainingRun) -> float:
        """The loss on samples that were not trained on, in batches of the user's size."""
        unseen = self.unseen
        if unseen is None or not run.finite or len(unseen.targets) < unseen.size:
            return math.nan
        try:
            output = run.output(unseen)
            rows = slice(0, unseen.count if unseen.alone else unseen.size)
            with torch.no_grad(), random_states():
                return float(unseen.loss(output[rows], unseen.targets[rows]))
        except Exception:  # noqa: BLE001 (the model may take batches of one size alone)
            return math.nan


def _worth(times: float, trials: Trials) -> bool:
    """The outer rates are tried where the one before them was better than the user's."""
    inner = {0.01: 0.1, 100.0: 10.0}.get(times)
    if inner is None:
        return True
    before = trials.others.get(FORM[inner])
    if before is None:  # it was left out
        return False
    return before.after(before.steps) < trials.mine.after(before.steps) or not before.finite


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
    model: nn.Module, data: TrainingSamples, recipe: Recipe, clip: float | None
) -> Iterator[tuple[str, Recipe, int]]:
    """Another family of optimizers at its usual rate, and smaller batches where there are few."""
    made = recipe.make(duplicate(model))
    group, unusual = made.param_groups[0], unusual_settings(made)
    if group.get("weight_decay", 0.0) > DECAY:
        yield DECAYLESS, recipe.having(weight_decay=0.0), data.size
    if unusual:
        form = CALMER if [*unusual] == ["momentum"] else USUAL
        yield form, recipe.having(**unusual), data.size
    if clip is not None and clip < CLIP:
        yield UNCLIPPED, recipe, data.size
    yield OTHER, other_family(recipe), data.size
    if data.alone and data.size >= 8 and 4 * data.size > data.count:  # few steps in an epoch
        yield BATCH, recipe, data.size // 8


def other_family(recipe: Recipe) -> Recipe:
    """Adam in place of SGD, SGD with momentum in place of all others, at their usual rates."""
    return (
        Recipe("adam", 1e-3) if recipe.family == "sgd" else Recipe("sgd", 0.01, {"momentum": 0.9})
    )
