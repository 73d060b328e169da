"""A remedy applied, and the result measured again."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import torch
from torch import nn

from sigmascope import survey
from sigmascope.core import quantities as q
from sigmascope.core.guard import Budget, Progress, Refusal, door
from sigmascope.core.records import Finding, Profile, Shown
from sigmascope.diagnosis.engine import judge
from sigmascope.diagnosis.remedies.base import Batches, Remedy
from sigmascope.diagnosis.remedies.batch_normalisation import NormalisationEffect
from sigmascope.diagnosis.remedies.catalogue import (
    REMEDIES,
    Together,
    informed,
    remedy as remedy_named,
)
from sigmascope.diagnosis.trainability.copies import Optimizer
from sigmascope.diagnosis.trainability.model import FITTING, foretold, probability
from sigmascope.models.layers import called, in_words
from sigmascope.models.samples import Batch, as_tensor
from sigmascope.models.state import duplicate, still

ENOUGH = 0.9  # probability of fitting above which one remedy is enough
PAIRS = 2  # that are proposed
SAME: tuple[set[str], ...] = (  # the second does what the first did, or undoes it
    {"rescale-residual", "zero-branches"},
    {"unit-scale", "reinitialise"},
    {"unit-scale", "rank-pretraining"},
    {"rank-pretraining", "reinitialise"},
    {"batch-norm", "layer-norm"},
)


@dataclass(frozen=True, slots=True, repr=False)
class Treatment(Shown):
    """A model before and after a remedy.

    Attributes:
        remedy: What was applied.
        model: The new model.
        before: Profile of the old one.
        after: Profile of the new one.
        found_before: What was wrong with the old one.
        found_after: What is wrong with the new one.
    """

    remedy: Remedy
    model: nn.Module
    before: Profile
    after: Profile
    found_before: tuple[Finding, ...]
    found_after: tuple[Finding, ...]

    @property
    def cured(self) -> tuple[str, ...]:
        """Names of findings that are gone, or are now a warning where they were an error.

        Without a new probability nothing is known of what rests on the old one.
        """
        blind = probability(self.after) is None
        left = {f.name: f.severity for f in self.found_after}
        return tuple(
            f.name
            for f in self.found_before
            if not (blind and any(r.quantity == FITTING for r in f.evidence))
            and (f.name not in left or (f.severity, left[f.name]) == ("error", "warning"))
        )

    @property
    def new(self) -> tuple[str, ...]:
        """Names of findings that the remedy brought."""
        had = {f.name for f in self.found_before}
        return tuple(f.name for f in self.found_after if f.name not in had)

    @property
    def burden(self) -> tuple[int, int]:
        """Errors and warnings that are left: the fewer, the better."""
        severities = [f.severity for f in self.found_after]
        return severities.count("error"), severities.count("warning")

    def is_of_weights(self, old: nn.Module, batch: Batch) -> bool:
        """Whether the old model with the new weights computes what the new one does.

        Args:
            old: What the remedy was applied to; left as it is.
            batch: What both are run on.
        """
        loaded = duplicate(old)
        try:
            loaded.load_state_dict(self.model.state_dict())
            with torch.no_grad(), still(self.model), still(loaded):
                a, b = (as_tensor(called(m, batch))[0] for m in (self.model, loaded))
        except (RuntimeError, Refusal):  # other names, or other shapes
            return False
        return torch.equal(a, b)


@dataclass(frozen=True, slots=True, repr=False, eq=False)
class RemedyTrials(Shown):
    """Every remedy that was tried. It unpacks: `tried, declined = ss.trial(...)`.

    Attributes:
        treatments: In the order to show them, the best first.
        declined: Reasons of those that do not apply, by name of remedy.
        normalisation: What the model's own batch normalisers do.
        untried: Names of those for which the budget had no time.
        needed: Seconds in which all are tried, by those that were; 0 where all were.
    """

    treatments: tuple[Treatment, ...]
    declined: Mapping[str, str]
    normalisation: NormalisationEffect | None = None
    untried: tuple[str, ...] = ()
    needed: float = 0.0

    def __iter__(self) -> Iterator[Any]:
        return iter((self.treatments, self.declined))


@door
def treat(
    model: nn.Module,
    batch: Batch,
    remedy: Remedy | str,
    *,
    batches: Batches | None = None,
    before: Profile | None = None,
    optimizer: Optimizer = "adam",
    budget: Budget | float | None = Budget.USUAL,
    **options: Any,
) -> Treatment:
    """Apply a remedy and measure the model again, as it was measured before.

    Args:
        model: Stays as it is.
        batch: What both profiles are measured on.
        remedy: By its name, from `REMEDIES`, or one of your own.
        batches: What the remedy works with; `batch` if not given.
        before: From `assess`, if the model was measured on this batch already.
        optimizer: With which both are probed.
        budget: Seconds that the probes may take, all in all; past it the probability is left out.
            Measuring the model twice and applying the remedy come on top.
        options: As for `survey.profile`: `targets`, `loss`, `views` and others.

    Raises:
        Inapplicable: If the remedy does nothing for this model.
        Refusal: If the model or the batch cannot be measured, or there is no remedy of that name.
    """
    how: Any = {"optimizer": optimizer, "budget": Budget.of(budget), **options}
    remedy = remedy_named(remedy) if isinstance(remedy, str) else remedy
    before = before or assess(model, batch, **how)
    remedy = informed(remedy, options.get("targets"))
    changed = remedy.apply(model, batch if batches is None else batches)
    after = assess(changed, batch, **how)
    after = survey.named(after, {**after.about, "remedy": remedy.name})
    return Treatment(remedy, changed, before, after, judge(before), judge(after))


@door
def trial(
    model: nn.Module,
    batch: Batch,
    *,
    remedies: Iterable[Remedy | str] | None = None,
    batches: Batches | None = None,
    progress: Progress | None = None,
    generator: torch.Generator | None = None,
    budget: Budget | float | None = Budget.USUAL,
    **options: Any,
) -> RemedyTrials:
    """Try remedies on copies of a model, and pairs of the best where none is enough.

    Args:
        model: Stays as it is.
        batch: What every copy is measured on.
        remedies: As for `treat`; all of `REMEDIES` if not given, of a single one no pairs are made.
        batches: What remedies work with; `batch` if not given.
        progress: Called with a name, the trials done and the trials in all.
        generator: As for `survey.profile`; every profile draws the same from it.
        budget: Seconds for all: no further remedy is begun where less is left than measuring the
            model took. So it is kept to within that and one remedy; the first is always tried.
            What is left near its end may leave probabilities out.
        options: As for `treat`, but `before`.

    Returns:
        What was tried, the best first as `ranked` has it, and by name of remedy why others do
        not apply; it unpacks to these two.

    Raises:
        Refusal: If the model or the batch cannot be measured.
    """
    options["budget"] = budget = Budget.of(budget)
    given = [kind() for kind in REMEDIES] if remedies is None else remedies
    queue = [remedy_named(each) if isinstance(each, str) else each for each in given]
    tell = progress or (lambda *_: None)
    tell("as it is", 0, len(queue) + 1)
    state = (generator or torch.Generator().manual_seed(0)).get_state()
    fresh = lambda: torch.Generator().set_state(state)
    began = budget.used
    with budget.counting():
        before = assess(model, batch, generator=fresh(), **options)
        measuring = budget.used - began
        found: list[Treatment] = []
        declined: dict[str, str] = {}
        untried: list[str] = []
        needed, singles = 0.0, len(queue)
        for done in range(singles + PAIRS):
            if done == singles > 1:
                queue += pairs(found)
            if done < len(queue) and done and budget.left < measuring:
                untried.append(queue[done].name)
                needed = needed or measuring + (budget.used - began - measuring) / done * len(queue)
            elif done < len(queue):
                tell(queue[done].name, done + 1, len(queue) + 1)
                same = {"batches": batches, "before": before, "generator": fresh()}
                try:
                    found.append(treat(model, batch, queue[done], **same, **options))
                except Exception as reason:  # noqa: BLE001 (a cured model fails in every way)
                    declined[queue[done].name] = in_words(reason)
    late: Any = {"untried": tuple(untried), "needed": needed}
    return RemedyTrials(tuple(ranked(found)), MappingProxyType(declined), **late)


@door
def assess(
    model: nn.Module,
    batch: Batch,
    *,
    optimizer: Optimizer = "adam",
    budget: Budget | float | None = Budget.USUAL,
    **options: Any,
) -> Profile:
    """A profile with the probability of fitting in it.

    Args:
        model: Left as it is.
        batch: As for `survey.profile`.
        optimizer: As for `trainability`.
        budget: As for `trainability`.
        options: As for `survey.profile`: `targets`, `loss`, `views` and others.
    """
    measured = survey.profile(model, batch, **options)
    known = {k: v for k, v in options.items() if k in ("targets", "loss", "batch_dim")}
    return foretold(measured, model, batch, optimizer=optimizer, budget=budget, **known)


def ranked(treatments: Iterable[Treatment]) -> list[Treatment]:
    """The best first: most likely to fit, then fewest errors and warnings, then the last ratio.

    Probabilities are compared in steps of 0.05, within which they do not tell remedies apart.
    """

    def burden(t: Treatment) -> tuple[float, ...]:
        found = probability(t.after)
        chance = 0.0 if found is None else float(round(20 * found.estimate.value))
        return (-chance, *t.burden, -last_ratio(t.after))

    return sorted(treatments, key=burden)


def pairs(treatments: Iterable[Treatment]) -> tuple[Together, ...]:
    """Pairs of remedies that are worth a trial: the best with each of the next two.

    Args:
        treatments: Of single remedies, tried on one model.

    Returns:
        None where the best is likely to be enough by itself.
    """
    order = ranked(treatments)
    found = probability(order[0].after) if order else None
    if found is None or found.estimate.value >= ENOUGH:
        return ()
    names = [kind.name for kind in REMEDIES]
    # the user's own last
    place = lambda remedy: names.index(remedy.name) if remedy.name in names else len(names)
    both = (tuple(sorted((order[0].remedy, o.remedy), key=place)) for o in order[1:])
    fit = [pair for pair in both if {r.name for r in pair} not in SAME]
    return tuple(Together(pair) for pair in fit[:PAIRS])


def last_ratio(profile: Profile) -> float:
    """Participation ratio of what the last layer reads; 0 where it was not measured."""
    sites = {layer.site for layer in profile.layers}
    found = [r for r in profile.series(q.PARTICIPATION_RATIO, form="samples") if r.site in sites]
    return found[-1].estimate.value if found else 0.0
