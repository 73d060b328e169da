"""The door: a whole program in, a diagnosis out."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from typing import Any, overload

import torch
from torch import Tensor, nn

from sigmascope import survey
from sigmascope.diagnosis.programs.data import Taken, taken
from sigmascope.diagnosis.programs.fitting import fitting_loss
from sigmascope.diagnosis.programs.losses import (
    LossSpec,
    is_language,
    loss_of,
    shifted,
    tokens_of,
)
from sigmascope.diagnosis.programs.optimisers import Spec
from sigmascope.diagnosis.programs.program import Program, program_of
from sigmascope.diagnosis.rules.catalogue import diagnose as findings_of
from sigmascope.diagnosis.rules.fit import UNFIT
from sigmascope.diagnosis.trainability.model import foretold
from sigmascope.diagnosis.trainability.short_runs import Optimiser
from sigmascope.diagnosis.training import Data, training_items
from sigmascope.gate import Refusal
from sigmascope.probes.execution import called, still
from sigmascope.probes.samples import (
    Loss,
    as_tensor,
    prepared,
    require_finite_targets,
    require_task,
    sample_count,
)
from sigmascope.quantities import ALL, View
from sigmascope.records import Finding, Profile, Reading, Shown, Skipped
from sigmascope.survey import tried

SAMPLES = 128  # that are measured
SIZE = 32  # samples in a step, where nobody says
PLAIN = ("sgd", "asgd")  # all other optimisers are of Adam's kind


@dataclass(frozen=True, slots=True, repr=False)
class Diagnosis(Shown):
    """What is wrong with a program, and what it rests on.

    Attributes:
        profile: What was measured: the network, its task, and how it trains.
        findings: Causes first, each with what follows from it behind it.
        settings: How the program trains, in words; empty where it does not say.
    """

    profile: Profile
    findings: tuple[Finding, ...]
    settings: str = ""

    @property
    def causes(self) -> tuple[Finding, ...]:
        """Findings that follow from no other."""
        return tuple(f for f in self.findings if not f.follows)


@overload
def diagnose(program: Profile) -> tuple[Finding, ...]: ...
@overload
def diagnose(
    program: nn.Module | Program | Any,
    data: Any = None,
    *,
    loss: LossSpec | None = None,
    optimizer: Spec | None = None,
    lr: float | None = None,
    batch_size: int | None = None,
    epochs: float | None = None,
    samples: int = SAMPLES,
    views: Collection[View] = ALL,
    batch_dim: int = 0,
    progress: survey.Progress | None = None,
    **options: Any,
) -> Diagnosis: ...
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
    views: Collection[View] = ALL,
    batch_dim: int = 0,
    progress: survey.Progress | None = None,
    **options: Any,
) -> Diagnosis | tuple[Finding, ...]:
    """Say what is wrong with a training program: its network, its task and how it trains.

    Args:
        program: A model, with `data` and the rest beside it; or all in one, as `Program` or
            anything that `program_of` takes; or a profile, whose findings are given back.
        data: A batch `(inputs, targets)`, a data set, or a loader. Of language models the token ids
            are enough: targets are the next tokens.
        loss: A name, a function of output and targets, or a module. Without it cross-entropy for
            classes, mean squared error for values.
        optimizer: The user's: a name (`adam`, `sgd`, `rmsprop`), an optimiser, or a function that
            makes one of parameters. Without it nothing is said of how the program trains.
        lr: Learning rate that goes with a name.
        batch_size: Samples in a step; the loader's, else 32.
        epochs: For which training is planned.
        samples: On how many samples to measure.
        views: As for `survey.profile`.
        batch_dim: Where batches have their samples.
        progress: As for `survey.profile`.
        options: What else goes with the name of an optimiser (`momentum`, `weight_decay`), or
            belongs to the program (`clip`).

    Returns:
        Findings, the profile they rest on, and the program's settings in words. The model, its
        gradients and torch's random state are as they were.

    Raises:
        Refusal: If the model or the data cannot be measured.

    Cost: `survey.profile`, the probing steps of `trainability`, and about 20 passes at the user's
    settings and beside them; small models get up to 1000 steps at the user's settings.
    """
    if isinstance(program, Profile):
        return findings_of(program)
    if isinstance(program, nn.Module) and data is not None:
        own = {k: options.pop(k) for k in ("clip",) if k in options}
        whole = Program(program, data, loss, optimizer, lr, batch_size, epochs, options, **own)
    else:
        whole = program_of(program)
    return _examined(whole, samples, views, batch_dim, progress)


def _examined(
    program: Program,
    samples: int,
    views: Collection[View],
    batch_dim: int,
    progress: survey.Progress | None,
) -> Diagnosis:
    """Everything that can be measured of the program; what cannot is said."""
    known = taken(program.data, samples=samples, batch_dim=batch_dim)
    known = _completed(program.model, known)
    loss = fitting_loss if program.loss is None else loss_of(program.loss)
    why = _unfit(program.model, known, loss, batch_dim)
    task: dict[str, Any] = {"batch_dim": batch_dim}
    if known.targets is not None and not why:
        task |= {"targets": known.targets, "loss": loss}
    measured = survey.profile(
        program.model, known.batch, **task, views=views, progress=progress
    )
    recipe = program.recipe()
    size = min(program.batch_size or known.size or SIZE, known.total or SIZE)
    if why:
        gap = Skipped("(targets)", UNFIT, why)
        measured = replace(measured, skipped=(*measured.skipped, gap))
    else:
        family: Optimiser = "sgd" if recipe is not None and recipe.name in PLAIN else "adam"
        measured = foretold(measured, program.model, known.batch, **task, optimiser=family)
        measured = _trained(measured, program, known, size, task)
    settings = "" if recipe is None else f"{recipe.says()}, batches of {size}"
    if settings and program.epochs is not None:
        settings += f", {program.epochs:g} epochs"
    about = {"loss": getattr(loss, "__name__", type(loss).__name__)} if task.get("loss") else {}
    about |= {"training": settings} if settings else {}
    measured = survey.named(measured, {**measured.about, **about})
    return Diagnosis(measured, findings_of(measured), settings)


def _completed(model: nn.Module, known: Taken) -> Taken:
    """Next tokens as the targets of a language model, where nobody gave any."""
    ids = tokens_of(known.batch)
    if ids is None:
        return known
    same = isinstance(known.targets, Tensor) and known.targets.shape == ids.shape
    if known.targets is not None and not (same and bool((known.targets == ids).all())):
        return known
    own = isinstance(known.batch, Mapping)  # labels that are the inputs: the model shifts them
    if known.targets is not None and not own:
        return known
    with still(model), torch.no_grad():
        output = as_tensor(called(model, prepared(model, known.batch)))[0]
    if not is_language(known.batch, output, None):
        return known
    mask = known.batch.get("attention_mask") if own else None
    return replace(known, targets=shifted(ids, mask))


def _unfit(model: nn.Module, known: Taken, loss: Loss, batch_dim: int) -> str:
    """Why targets and loss do not go with the output; empty where they do, or there are none."""
    if known.targets is None:
        return ""
    with still(model), torch.no_grad():
        output = as_tensor(called(model, prepared(model, known.batch)))[0]
    count = sample_count(known.batch, batch_dim=batch_dim)
    try:
        require_finite_targets(known.targets)
        require_task(output, known.targets, loss, count=count, batch_dim=batch_dim)
    except Refusal as refusal:
        return str(refusal)
    return ""


def _trained(
    measured: Profile, program: Program, known: Taken, size: int, task: dict[str, Any]
) -> Profile:
    """The profile with what training at the user's settings showed, or why it did not."""
    why, recipe = "", program.recipe()
    if recipe is None:
        why = "no optimiser was given"
    elif not isinstance(task.get("targets"), Tensor):
        why = "no targets were given"
    if why or recipe is None:
        gap = Skipped("(training)", "training", why)
        return replace(measured, skipped=(*measured.skipped, gap))
    batch = prepared(program.model, known.batch)
    data = Data(batch, task["targets"], task["loss"], size, task["batch_dim"])
    planned = program.planned(known.total, size)
    items = [*tried(training_items(program.model, data, recipe, planned=planned,
                                   clip=program.clip), "training")]  # fmt: skip
    return replace(
        measured,
        readings=(*measured.readings, *(i for i in items if isinstance(i, Reading))),
        skipped=(*measured.skipped, *(i for i in items if isinstance(i, Skipped))),
        views=(*measured.views, "training"),
    )
