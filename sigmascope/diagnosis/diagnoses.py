"""The door: a whole program in, a diagnosis out."""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from sigmascope import survey
from sigmascope.core import quantities as q
from sigmascope.core.guard import Budget, Refusal, WrongKind, came, door, listed
from sigmascope.core.records import Estimate, Fact, Finding, Item, Profile, Reading, Shown, Skipped
from sigmascope.diagnosis.engine import judge, unproven
from sigmascope.diagnosis.programs.losses import LossSpec
from sigmascope.diagnosis.programs.opened import (
    Opened,
    last_batch_items,
    opened,
    order_items,
    unseen,
)
from sigmascope.diagnosis.programs.optimizers import Recipe, Spec, unfollowed
from sigmascope.diagnosis.programs.outputs import joined
from sigmascope.diagnosis.programs.program import Program, program_of
from sigmascope.diagnosis.rules.outputs import UNFIT
from sigmascope.diagnosis.rules.sequences import COUNTED
from sigmascope.diagnosis.trainability.model import (
    FITTING,
    FLOOR,
    MODEL,
    foretold,
    not_foretold,
)
from sigmascope.diagnosis.trainability.short_runs import LONGER, PASSES
from sigmascope.diagnosis.training import TrainingSamples, training_items
from sigmascope.models.samples import prepared
from sigmascope.models.state import as_found

if TYPE_CHECKING:
    from sigmascope.diagnosis.cures import Cures

SAMPLES = 128  # that are measured
ENDS = (q.LEAST_LOSS, q.LEAST_LOSS_OF_A_CONSTANT)  # between which training goes
NOT_ASKED = (
    "it was not asked for: `--fit` (`fit=True` in Python) trains copies for 42 passes and tells "
    "whether plain training would get under way from these weights, which were trained already"
)
DECIDED = (
    "training at your settings left nothing open that it could change; `--fit` (`fit=True` in "
    "Python) measures it all the same"
)
HASTE = "a quick look leaves it out: ask without `--quick` (`quick=True` in Python)"
WITH_INPUTS = "Targets go with their inputs: `diagnose(model, (inputs, targets))`, or a loader."
ELSEWHERE = {  # what other functions take by these names, and where it goes here
    "targets": WITH_INPUTS,
    "target": WITH_INPUTS,
    "labels": WITH_INPUTS,
    "y": WITH_INPUTS,
    "device": "A model is measured where it lies: move it before, `model.to(device)`.",
    "learning_rate": "It is `lr=`.",
    "optimiser": "It is `optimizer=`.",
    "criterion": "It is `loss=`.",
}
ALL_OF, SOME = 16, 8  # outputs of a sample that are differentiated: all of so few, or mixtures


@dataclass(frozen=True, slots=True, repr=False)
class Diagnosis(Shown):
    """What is wrong with a program, and what it rests on.

    Attributes:
        profile: What was measured: the network, its task, and how it trains.
        findings: Causes first, each with what follows from it behind it.
        settings: How the program trains, in words; empty where it does not say.
        program: What was diagnosed, for `cures`. It is no part of what was found: it is neither
            compared nor filed, for a model may hold anything, and a diagnosis that comes from a
            file, another process, a copy or a profile has none.
    """

    profile: Profile
    findings: tuple[Finding, ...]
    settings: str = ""
    program: Program | None = field(default=None, compare=False)

    @property
    def causes(self) -> tuple[Finding, ...]:
        """Findings that follow from no other."""
        return tuple(f for f in self.findings if not f.follows)

    def cures(
        self, *, samples: int = SAMPLES, budget: Budget | float | None = Budget.USUAL
    ) -> "Cures":
        """Try cures of the program on copies, trained as the user trains.

        Args:
            samples: On how many samples.
            budget: Seconds that all training may take, as for `diagnosis.cures.cured`.

        Returns:
            What was tried, the best first; nothing where nothing was found. Copies begin at the
            weights that the model has now.

        Raises:
            Refusal: If the program names no optimizer, or this diagnosis knows no program.

        Example:
            >>> import torch
            >>> x = torch.randn(64, 4, generator=torch.Generator().manual_seed(0))
            >>> model = torch.nn.Sequential(torch.nn.Linear(4, 2), torch.nn.Softmax(-1))
            >>> how = {"loss": "cross_entropy", "optimizer": "sgd", "lr": 0.1, "epochs": 4}
            >>> found = diagnose(model, (x, (x[:, 0] > 0).long()), **how)
            >>> "end-in-linear" in [cure.name for cure in found.cures(budget=20).tried]
            True
        """
        if self.program is None:
            raise Refusal(
                "Cures are tried on the program that was diagnosed, and this diagnosis has none: "
                "it was made of a profile, or comes from a file, another process or a copy. "
                "Diagnose the program here, `sigmascope.diagnose(program).cures()`, or name it: "
                "`diagnosis.cures.cured(program, found)`."
            )
        from sigmascope.diagnosis import cures  # they diagnose what they changed, and stand above

        return cures.cured(self.program, self, samples=samples, budget=budget)

    def __reduce__(self) -> tuple[Any, ...]:
        return Shown.__reduce__(replace(self, program=None))


@door
def diagnose(
    program: Any,
    data: Any = None,
    *,
    loss: LossSpec | None = None,
    optimizer: Spec | None = None,
    lr: float | None = None,
    batch_size: int | None = None,
    epochs: float | None = None,
    samples: int = SAMPLES,
    views: Collection[q.View] = q.ALL,
    outputs: int | Sequence[int] | None = None,
    batch_dim: int = 0,
    generator: torch.Generator | None = None,
    progress: survey.Progress | None = None,
    early: Callable[[tuple[Finding, ...]], None] | None = None,
    fit: bool | None = None,
    quick: bool = False,
    budget: Budget | float | None = Budget.USUAL,
    **options: Any,
) -> Diagnosis:
    """Say what is wrong with a training program: its network, its task and how it trains.

    Args:
        program: A model, with `data` and the rest beside it; or all in one, as `Program` or
            anything that `program_of` takes, of which what is given beside it takes the place; or
            a profile that was measured, which is judged.
        data: A batch `(inputs, targets)`, a data set, or a loader. Of language models the token ids
            are enough: targets are the next tokens.
        loss: A name, a function of output and targets, or a module. Without it cross-entropy for
            classes, mean squared error for values.
        optimizer: The user's: a name (`adam`, `sgd`, `rmsprop`), an optimizer, or a function that
            makes one of parameters. Without it nothing is said of how the program trains.
        lr: Learning rate that goes with a name.
        batch_size: Samples in a step; the loader's, else 32.
        epochs: For which training is planned.
        samples: On how many samples to measure.
        views: As for `survey.profile`; without `"setup"` nothing is trained.
        outputs: As for `survey.profile`; all where a sample has up to 16, else 8.
        batch_dim: Where batches have their samples.
        generator: As for `survey.profile`.
        progress: As for `survey.profile`; of training it is told each step.
        early: Called with the findings so far: once a few passes are made, and again with more that
            is known, before copies are trained. What training has yet to prove is no error there.
        fit: Whether to measure the probability of fitting, which says little of a model that is
            trained already; where nobody says, only if training at the user's settings leaves
            something open that it could decide.
        quick: Only what a few passes show: the views `quantities.QUICK` where none are named, and
            nothing is trained. What is left out is said under what was skipped.
        budget: Seconds that training of copies may take, kept to within a step; None for as long as
            it takes. What there was no time for is said under what was skipped.
        options: What else goes with the name of an optimizer (`momentum`, `weight_decay`), or
            belongs to the program (`clip`, and `total`, the number of all samples).

    Returns:
        Findings, the profile they rest on, and the program's settings in words; `cures()` of it
        tries cures. The model, the loss, their gradients and torch's random state are as they were.

    Raises:
        Refusal: If the model or the data cannot be measured.

    Cost: `survey.profile`, about 20 passes at the user's settings and beside them (small models get
    up to 1000 steps at the user's settings), and the probing steps of `trainability` where they may
    decide something.
    """
    for name in options:
        if name in ELSEWHERE:
            raise Refusal(f"`diagnose` takes no `{name}=`. {ELSEWHERE[name]}")
    beside: dict[str, Any] = {"loss": loss, "optimizer": optimizer, "lr": lr}
    beside |= {"batch_size": batch_size, "epochs": epochs}
    beside |= {k: options.pop(k) for k in ("clip", "total") if k in options}
    beside = {k: v for k, v in beside.items() if v is not None}
    if isinstance(program, Profile):
        given = [*beside, *options, *(["data"] if data is not None else [])]
        if given:
            raise Refusal(
                f"A profile is judged as it was measured, got {listed(given)} beside it. Pass the "
                "model in its place, or the profile alone."
            )
        return Diagnosis(program, judge(program))
    if isinstance(program, nn.Module) and data is not None:
        whole = Program(program, data, options=options, **beside)
    elif data is not None:
        turned = " They stand the other way round." if isinstance(data, nn.Module) else ""
        raise WrongKind(
            f"`program` must be a torch.nn.Module where `data` stands beside it, got "
            f"{came(program)}.{turned} Call `diagnose(model, data, ...)`."
        )
    else:
        whole = program_of(program)
        if beside or options:
            whole = replace(whole, **beside, options={**whole.options, **options})
    if quick:
        views = q.QUICK if views is q.ALL else views
    tell = None if early is None else lambda seen: early(unproven(judge(seen)))
    with as_found(whole.loss):
        known = opened(whole, samples=samples, batch_dim=batch_dim)
        if outputs is None:
            outputs = ALL_OF if known.width <= ALL_OF else SOME
        asked = {"views": views, "outputs": outputs, "generator": generator, "progress": progress}
        task, recipe, budget = known.task, whole.recipe(), Budget.of(budget)
        with joined(whole.model, known.joint), budget.told(progress):
            # of a quick look there is nothing before it
            whence = None if quick else tell
            measured = survey.profile(whole.model, known.batch, **task, **asked, early=whence)
            if tell is not None:
                tell(measured)
            gaps = []
            if known.unfit:
                gaps.append(Skipped("(targets)", UNFIT, known.unfit))
            elif quick:
                gaps.append(Skipped("(training)", "training", HASTE))
                measured = not_foretold(measured, HASTE)
            elif "setup" in views:
                kept = 0 if fit is False else PASSES + 2 * LONGER
                measured = _trained(measured, whole, known, recipe, budget, kept=kept)
                if fit is False:
                    measured = not_foretold(measured, NOT_ASKED)
                elif fit is None and _decided(measured):
                    measured = not_foretold(measured, DECIDED)
                else:
                    family = "adam" if recipe is None else recipe.family
                    enough = partial(_decided, measured) if fit is None else None
                    how = {"optimizer": family, "budget": budget, "enough": enough}
                    measured = foretold(measured, whole.model, known.batch, **task, **how)
            if known.joint is not None and known.joint.chooses:
                says = "the model makes the mask or the labels that say it"
                gaps.append(Skipped("(loss)", COUNTED, says))
            if known.unread:
                gaps.append(Skipped("(loss)", "the loss of the program", known.unread))
            measured = replace(measured, skipped=(*measured.skipped, *gaps))
            settings = ""
            if recipe is not None:
                planned = "" if whole.epochs is None else f", {whole.epochs:g} epochs"
                settings = f"{recipe.says()}, batches of {known.size}{planned}"
            about = {"loss": getattr(known.loss, "__name__", type(known.loss).__name__)}
            about = (about if "loss" in task else {}) | ({"training": settings} if settings else {})
            measured = survey.named(measured, {**measured.about, **about})
            return Diagnosis(measured, judge(measured), settings, whole)


def _decided(measured: Profile, least: float = FLOOR) -> bool:
    """Whether no probability of fitting from `least` on changes what training at hand tells.

    Rules compare it with limits, so that what the least and the greatest bring, all others do.
    """
    if not measured.series(q.PROBABILITY_AT_YOUR_SETTINGS):
        return False
    ends = (Reading(MODEL, FITTING, Estimate.exactly(p), "setup") for p in (least, 1 - FLOOR))
    few, many = (judge(replace(measured, readings=(*measured.readings, r))) for r in ends)
    return few == many


def _trained(
    measured: Profile,
    program: Program,
    known: Opened,
    recipe: Recipe | None,
    budget: Budget,
    *,
    kept: int,
) -> Profile:
    """The profile with what training at the user's settings showed, or why it did not."""
    if recipe is None:  # of which the report says that nothing was heard
        return measured
    items: list[Item] = []
    loss = program.loss
    own = loss.named_parameters() if isinstance(loss, nn.Module) else ()
    trained = [name for name, p in own if p.requires_grad]
    if trained:  # copies do without
        why = (
            f"copies are trained with `{trained[0]}` as it is: make the loss a part of the model, "
            "and its output the loss, if the program trains it"
        )
        items.append(Skipped("(loss)", "training of the loss's own weights", why))
    items += order_items(program.data)
    items += [Skipped("(optimizer)", *why) for why in unfollowed(program.optimizer, program.model)]
    if not isinstance(known.task.get("targets"), Tensor):
        items.append(Skipped("(training)", "training", "no targets were given that it could fit"))
    else:
        data = data_of(program, known)
        ends = [r.estimate.value for name in ENDS for r in measured.series(name)]
        seen = training_items(
            program.model,
            data,
            recipe,
            planned=known.planned,
            clip=program.clip,
            ends=(ends[0], ends[1]) if len(ends) == len(ENDS) else None,
            budget=budget,
            unseen=unseen_of(program, known),
            kept=kept,
        )
        items += [*seen, *last_batch_items(program, known)]
    if known.epoch is not None:
        count = Estimate.exactly(known.epoch)
        items.append(Reading("(training)", q.STEPS_OF_AN_EPOCH, count, "training"))
    return replace(
        measured,
        readings=(*measured.readings, *(i for i in items if isinstance(i, Reading))),
        facts=(*measured.facts, *(i for i in items if isinstance(i, Fact))),
        skipped=(*measured.skipped, *(i for i in items if isinstance(i, Skipped))),
        views=(*measured.views, "training"),
    )


def unseen_of(program: Program, known: Opened) -> TrainingSamples | None:
    """Samples that nothing was measured on, as training takes them; None where there are none."""
    more = unseen(program, known)
    if more is None:
        return None
    batch = prepared(program.model, more[0])
    return TrainingSamples(batch, more[1], known.loss, known.size, known.batch_dim)


def data_of(program: Program, known: Opened) -> TrainingSamples:
    """The samples at hand, as training takes them."""
    batch = prepared(program.model, known.batch)
    return TrainingSamples(batch, known.targets, known.loss, known.size, known.batch_dim)
