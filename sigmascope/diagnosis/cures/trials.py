"""Remedies of a whole program: each changes it, is trained as the user trains, and is compared.

A remedy of a network (`remedies`) knows no loss, no targets and no optimizer. What cures a program
may change any of them, so that a cure is a function from a program to a program (`changes`).
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from torch import Tensor

from sigmascope.core.guard import Budget, OverBudget, Refusal, time_words
from sigmascope.core.records import Shown
from sigmascope.diagnosis.cures.changes import SECOND, Maker, changes_for, require_recipe
from sigmascope.diagnosis.diagnoses import SAMPLES, Diagnosis, data_of, diagnose, unseen_of
from sigmascope.diagnosis.programs.opened import Opened, opened
from sigmascope.diagnosis.programs.outputs import joined
from sigmascope.diagnosis.programs.program import Program
from sigmascope.diagnosis.remedies.base import Inapplicable
from sigmascope.diagnosis.rules.dependences import MIXED_SAMPLES
from sigmascope.diagnosis.rules.outputs import OMITTED_CLASS
from sigmascope.diagnosis.training.runs import (
    TrainingRun,
    TrainingSamples,
    score_of,
    started,
    work_of,
)
from sigmascope.diagnosis.training.trials import steps_for
from sigmascope.models.layers import in_words
from sigmascope.models.state import as_found, still

MOST = 8  # cures that are tried
LIKE = 0.03  # of a score, within which the cure of the deeper cause goes first
ASIDE = (MIXED_SAMPLES.name, OMITTED_CLASS.name)  # which a score in batches says nothing of
WORSE = 0.05  # of a program's first loss, by which a cure may end above it
LEAST = 0.01  # by which a score must rise
ENOUGH = 0.9  # a score that needs no second cure


@dataclass(frozen=True, slots=True, repr=False)
class Cure(Shown):
    """A program before and after a change, both trained as the user trains.

    Attributes:
        name: Of the cure.
        cause: The finding that it is meant for.
        patch: Lines for the user's code.
        program: The changed program, its model at its initial weights.
        before: Accuracy, or share of the targets' variance explained, of the program as it is.
        after: The same of the changed one, after as many steps.
        steps: So many.
        diff: The patch as a unified diff of the user's file; empty where it was not asked for, or
            cannot be placed there.
        others: As `after`, of samples that were not trained on; nan where there are none. Where it
            is far below, a part of `after` was learned by heart.
    """

    name: str
    cause: str
    patch: tuple[str, ...]
    program: Program
    before: float
    after: float
    steps: int
    diff: str = ""
    others: float = math.nan


@dataclass(frozen=True, slots=True, repr=False, eq=False)
class Cures(Shown):
    """What was tried to cure a program.

    Attributes:
        tried: The best first.
        declined: Why others do not apply, by name.
    """

    tried: tuple[Cure, ...]
    declined: Mapping[str, str]


def cured(
    program: Program,
    found: Diagnosis | None = None,
    *,
    samples: int = SAMPLES,
    budget: Budget | float | None = Budget.USUAL,
) -> Cures:
    """Try cures of a program on copies, trained as the user trains.

    Where none is enough, the first of them and the best go on with another rate, optimizer or plan.

    Args:
        program: Left as it is.
        found: Its diagnosis, if it was made.
        samples: On how many samples.
        budget: Seconds that all training may take, kept to within a step; None for as long as it
            takes. Cures that are not trained as long as the program are declined, and say so.

    Returns:
        What was tried, by the score after as many steps as are planned, or up to 1000 of small
        models; scores within 0.03 stand in the order of causes. Nothing where nothing was found.

    Raises:
        Refusal: If the program names no optimizer.

    Cost: for each of up to eight cures 8 passes over the samples, more for small models; up to
    twelve more where none is enough.
    """
    require_recipe(program)
    budget = Budget.of(budget)
    found = found or diagnose(program, samples=samples, budget=budget)
    known = opened(program, samples=samples)
    try:
        now = None if known.unfit else _trained(program, known, budget)
    except OverBudget as error:
        return Cures((), MappingProxyType({"all cures": str(error)}))
    bench = _Bench(samples, now, budget)
    seen: set[str] = set()
    for finding in found.findings:
        for name, make in changes_for(finding):
            if name not in seen and len(bench.made) < MOST:
                seen.add(name)
                bench.put(name, finding.name, make, program, known)
    for cure in _worth_more(bench.made):
        again = opened(cure.program, samples=samples)
        for name, make in SECOND:
            both = f"{cure.name}+{name}"
            bench.put(both, cure.cause, make, cure.program, again, behind=cure)
    better = [c for c in bench.made if c.name not in bench.declined]
    # the best first, by samples that were not trained on where there are any, for others may be
    # learned by heart; those that are about as good in the order in which they were made
    unseen = not any(math.isnan(c.others) for c in better)
    worth = lambda c: c.others if unseen else c.after
    order = sorted(better, key=lambda c: -worth(c))
    good = [c for c in better if worth(c) >= worth(order[0]) - LIKE]
    ordered = (*good, *(c for c in order if c not in good))
    return Cures(ordered, MappingProxyType(bench.declined))


@dataclass(slots=True)
class _Bench:
    """Where changes are tried.

    Attributes:
        samples: On how many.
        now: How the program as it is trained; None where it does not.
        budget: Of time for all training.
        made: What was tried.
        declined: Why others do not apply.
    """

    samples: int
    now: "TrainingOutcome | None"
    budget: Budget
    made: list[Cure] = field(default_factory=list)
    declined: dict[str, str] = field(default_factory=dict)

    def put(
        self,
        name: str,
        cause: str,
        make: Maker,
        program: Program,
        known: Opened,
        *,
        behind: Cure | None = None,
    ) -> None:
        """Make a change, behind a first one or alone, and train what it gives."""
        try:
            change = make(program, known)
            changed = opened(change.program, samples=self.samples)
            if changed.unfit:
                raise Inapplicable(changed.unfit)
            made = _trained(change.program, changed, self.budget)
        except Exception as error:  # noqa: BLE001 (a cured model fails in every way)
            self.declined[name] = in_words(error)
            return
        patch = change.patch if behind is None else (*behind.patch, *change.patch)
        words = (name, cause, patch, change.program)
        before = math.nan if self.now is None else self.now.score
        cure = Cure(*words, before, made.score, made.steps, others=made.others)
        self.made.append(cure)
        why = "" if self.now is None else self.now.declines(made, cure.cause)
        if behind is not None and made.score < behind.after - LIKE:
            why = f"it takes away of `{behind.name}`: {behind.after:.2f} to {made.score:.2f}"
        if why:
            self.declined[cure.name] = why


@dataclass(frozen=True, slots=True)
class TrainingOutcome:
    """What training of a program came to.

    Attributes:
        score: Accuracy, or share of the targets' variance explained; -1 where it broke.
        others: The same of samples that were not trained on; nan where there are none.
        steps: So many.
        loss: The program's loss at the end, over that of before.
        by: The loss itself, to tell whether two losses can be compared.
    """

    score: float
    others: float
    steps: int
    loss: float
    by: object

    def declines(self, other: "TrainingOutcome", cause: str) -> str:
        """Why a change is no cure of this program; empty where it is one."""
        if other.score <= self.score + (-LEAST if cause in ASIDE else LEAST):
            return f"it changes little: {self.score:.2f} to {other.score:.2f}"
        if other.others < self.others - LIKE:  # neither where one is not known
            return (
                f"on samples that were not trained on it is worse: {self.others:.2f} to "
                f"{other.others:.2f}"
            )
        if self.by is other.by and other.loss > max(self.loss, 0.0) + WORSE:
            return f"the loss of the program is worse: {self.loss:.2g} to {other.loss:.2g} of it"
        return ""


def _worth_more(made: list[Cure]) -> list[Cure]:
    """Where no cure is enough: the first, which is meant for the deepest cause, and the best."""
    if not made or max(c.after for c in made) >= ENOUGH:
        return []
    best = max(made, key=lambda c: c.after)
    return [made[0]] if best is made[0] else [made[0], best]


def _trained(program: Program, known: Opened, budget: Budget) -> TrainingOutcome:
    """What training as the user trains comes to."""
    recipe = program.recipe()
    if recipe is None or not isinstance(known.targets, Tensor):
        raise Refusal("A cure is trained, which needs an optimizer and targets.")
    with joined(program.model, known.joint):
        data = data_of(program, known)
        with budget.counting(), still(program.model), as_found(program.loss):
            steps = steps_for(work_of(program.model, data), data, known.planned)
            run = started(program.model, recipe, data.size, clip=program.clip)
            run.go_on(data, steps, budget)
            run.rest()
        if run.finite and run.steps < steps:
            raise OverBudget(
                f"A cure must be trained for {steps} steps, got time for {run.steps} of them in "
                f"what was left of {time_words(budget.seconds)}: allow more, `--budget 10min` "
                "(`budget=600` in Python)."
            )
        score = _score(run, data, program) if run.finite else None
        more = unseen_of(program, known)
        others = None if more is None or score is None else _score(run, more, program)
        first = run.losses[0] if run.losses else math.nan
        change = run.after(run.steps) - first
        relative = 1 + change / max(abs(first), 1e-12) if math.isfinite(change) else math.inf
        return TrainingOutcome(
            -1.0 if score is None else score,
            math.nan if others is None else others,
            run.steps,
            relative,
            program.loss,
        )


def _score(run: TrainingRun, data: TrainingSamples, program: Program) -> float | None:
    with still(program.model), as_found(program.loss):  # a model may draw, a loss may remember
        return score_of(run, data)
