"""Which of some designs to train."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from typing import final

import torch
from torch import Tensor, nn

from sigmascope.core.guard import Budget, OverBudget, Refusal, door, printable, random_states
from sigmascope.core.records import Brief, Estimate, Shown
from sigmascope.diagnosis.trainability import scores
from sigmascope.diagnosis.trainability.copies import Optimizer
from sigmascope.diagnosis.trainability.curves import Curve, EarlyTraining, windows
from sigmascope.diagnosis.trainability.model import default_model, for_probing
from sigmascope.diagnosis.trainability.short_runs import Probing
from sigmascope.models.samples import Batch, Loss, beside, of_output, scalar_loss
from sigmascope.models.subject import Subject

__all__ = ["Entry", "Ranked", "looked", "rank", "ranked_entries"]

# ------------------------------------------------------------------------------
# Which of the rates that were tried to name: not the largest that looks good at first.
#
# In a short run the largest rate that does not diverge comes farthest, and later it does not
# settle: a short horizon prefers large steps (Wu et al. 2018, Understanding short-horizon bias in
# stochastic meta-optimization). So the next smaller rate is run for as long as the larger one, and
# is named unless the larger is still clearly ahead.


LONG = 33  # rounds after which two rates are compared; a probe's best rate has had as many
LAST = 6  # of them are averaged, for a single round of a large rate is noisy
AHEAD = 0.05  # of the way, by which the larger must be ahead
DONE = 0.95  # of the way: a rate that stays there needs no comparison
PLAIN = 0.02  # of the way, below which nothing has been learnt and nothing is compared


@final
@dataclass(frozen=True, slots=True)
class Named:
    """The rate of a design.

    Attributes:
        rate: To be trained with.
        seen: The probe, with the curve of that rate as long as it was run.
        why: What was compared, in words; empty where nothing had to be.
    """

    rate: float
    seen: EarlyTraining
    why: str = ""


def named(probing: Probing) -> Named:
    """The rate that came farthest, or the next smaller one where that comes as far.

    Args:
        probing: After the rounds that every design gets; goes on.

    Cost: up to 28 rounds, and as many as the better rate has fewer than 33.
    """
    seen = probing.seen()
    best = max(seen.curves, key=lambda c: (farthest(c, seen), -c.rate))
    below = max((c.rate for c in seen.curves if c.rate < best.rate), default=None)
    done = best.finite and level(best, seen) >= DONE
    if below is None or done or farthest(best, seen) < PLAIN:
        return Named(best.rate, seen)
    rounds = {c.rate: max(0, LONG - len(c.losses)) for c in seen.curves if c.finite}
    try:
        for rate in (below, best.rate):
            probing.go_on_at(rate, rounds.get(rate, 0))
    except OverBudget:  # what the user allowed is enough for a rate, not for this
        untried = f"There was no time to see whether {below:g} would do better than {best.rate:g}."
        return Named(best.rate, seen, untried)
    # the larger of the two only if it is clearly ahead
    after = probing.seen()
    curves = {c.rate: c for c in after.curves}
    large, small = (level(curves[rate], after) for rate in (best.rate, below))
    finite = curves[best.rate].finite
    if (finite and large > small + AHEAD) or not curves[below].finite:
        return Named(best.rate, seen.with_curves([curves[best.rate]]))
    return Named(
        below,
        seen.with_curves([curves[below]]),
        f"The rate is {below:g}: {best.rate:g} came as far sooner, but after {LONG} rounds "
        f"{f'no farther, {large:.0%} and {small:.0%}' if finite else 'was lost'}.",
    )


def farthest(curve: Curve, probe: EarlyTraining) -> float:
    """The most of the way that two rounds in a row came."""
    return max(windows(curve.reached(probe.constant)), default=-1.0)


def level(curve: Curve, probe: EarlyTraining) -> float:
    """How far it is, averaged over the last rounds; below nothing where there are none."""
    last = curve.reached(probe.constant)[-LAST:]
    return sum(last) / len(last) if last else -1.0


# ------------------------------------------------------------------------------
# Which of some designs will come farthest, at equal cost.


# A longer probe than that of a profile: of designs that all train, later rounds tell who is better.
ROUNDS = ((4, 5), (2, 6), (1, 22))  # how many of the best rates go on, and for how many rounds
PASSES = sum(count * rounds for count, rounds in ROUNDS)
COST = 60  # passes for each design, on average


@final
@dataclass(frozen=True, slots=True, repr=False)
class Entry(Brief):
    """One design to be ranked, with how it will be trained.

    Attributes:
        name: How it is called.
        model: At its initial weights.
        batch: Samples of its data; 256 of them are used.
        targets: Theirs.
        loss: What training minimises.
        optimizer: Heavy-ball SGD or Adam.
        rates: Learning rates to try; the usual four if None.
        batch_dim: Where the batch has its samples.
    """

    name: str
    model: nn.Module
    batch: Batch
    targets: Tensor
    loss: Loss
    optimizer: Optimizer = "adam"
    rates: tuple[float, ...] | None = None
    batch_dim: int = 0


@final
@dataclass(frozen=True, slots=True, repr=False)
class Ranked(Shown):
    """A design in its place.

    Attributes:
        name: How it is called.
        place: 1 for the best.
        forecast: How far training is foretold to come: 0 is the best constant output, 1 is all
            answers right, or all of the targets' variance.
        probability: That training will fit, as `trainability` has it.
        rate: The learning rate to train it with: at which it came farthest, or the next smaller one
            where that came as far in as many rounds.
        passes: Forward and backward passes of the batch that were spent on it.
        why: What was seen, in words.
    """

    name: str
    place: int
    forecast: Estimate
    probability: Estimate
    rate: float
    passes: int
    why: str


@door
def rank(
    models: Mapping[str, nn.Module] | Sequence[nn.Module],
    batch: Batch,
    *,
    targets: Tensor,
    loss: Loss,
    optimizer: Optimizer = "adam",
    rates: Sequence[float] | None = None,
    passes: int = COST,
    batch_dim: int = 0,
    generator: torch.Generator | None = None,
    budget: Budget | float | None = Budget.USUAL,
) -> tuple[Ranked, ...]:
    """Order designs by how far training is foretold to bring them, best first.

    Copies of each are probed as `trainability` does it. The rate that comes farthest is compared
    with the next smaller one over as many rounds, for what is best at first is often too large
    later. What is left of the passes goes to the better half of those that are on their way, and
    then to the better half of these.

    Args:
        models: Designs at their initial weights, by name; a sequence is named by number. They are
            left as they are.
        batch: Samples of the data; 256 of them are used.
        targets: Theirs: classes, or values.
        loss: What training minimises.
        optimizer: With which all will be trained.
        rates: Learning rates to try; the usual four of the optimizer if not given.
        passes: For each design on average, 54 or more, to tell the order; to tell which rate to
            name takes up to 28 more of a design that is not done or dead.
        batch_dim: Where the batch has its samples.
        generator: Chooses samples where there are more.
        budget: Seconds that all steps may take together, kept to within one; None for as long as it
            takes. Every design gets an equal part; what is left goes to the better ones, which get
            fewer passes where it is not enough: each record says how many it got.

    Returns:
        One record for each.

    Raises:
        OverBudget: If there is no time for 54 passes of each: fewer tell no order.
        Refusal: If there are no designs, fewer passes than a probe takes, or a design cannot be
            probed; it is named.

    Cost: `passes` forward and backward passes of the batch for each design, and up to 28 more.

    Source:
        Jamieson & Talwalkar 2016, successive halving.
    """
    named = models if isinstance(models, Mapping) else {str(i + 1): m for i, m in enumerate(models)}
    batch, targets = for_probing(batch, targets, batch_dim=batch_dim, generator=generator)
    rest = (optimizer, None if rates is None else tuple(rates), batch_dim)
    entries = [Entry(name, m, batch, targets, loss, *rest) for name, m in named.items()]
    return ranked_entries(entries, passes=passes, budget=budget)


@contextmanager
def _naming(name: str) -> Iterator[None]:
    """A refusal in the block says of which design it is."""
    try:
        yield
    except Refusal as error:
        kind = OverBudget if isinstance(error, OverBudget) else Refusal
        raise kind(f"{printable(name)}: {error}") from error


def ranked_entries(
    entries: Sequence[Entry], *, passes: int = COST, budget: Budget | float | None = Budget.USUAL
) -> tuple[Ranked, ...]:
    """Order designs of which each may have data, a loss and an optimizer of its own.

    Args:
        entries: What to order.
        passes: As for `rank`.
        budget: As for `rank`.

    Raises:
        Refusal: As for `rank`.

    Cost: as `rank`.
    """
    if not entries or passes < PASSES:
        raise Refusal(
            f"There must be a design to rank, and at least {PASSES} passes for each, got "
            f"{len(entries)} designs and {passes} passes. Name some, and spend more."
        )
    fitting = []
    for e in entries:  # before time is spent on any of them
        with _naming(e.name):
            subject = Subject(e.model, e.batch, batch_dim=e.batch_dim)
            loss = of_output(e.loss, subject.output, subject.output_rule, e.targets)
            with random_states():  # a loss may draw
                scalar_loss(loss, subject.output, beside(e.model, e.targets))
        fitting.append(replace(e, loss=loss))
    entries = fitting
    budget, tried = Budget.of(budget), []
    with budget.counting():
        for done, entry in enumerate(entries):
            tried.append(_Tried.of(entry, budget, left=len(entries) - done))
        left = passes * len(tried) - sum(t.looked for t in tried)
        order = lambda t: t.order
        going = sorted((t for t in tried if t.going), key=order, reverse=True)
        with suppress(OverBudget):  # what was seen until then is enough for an order
            # half of what is left for the better half of those on their way, and so on among these
            while going and left >= len(going):
                going = going[: max(1, len(going) // 2)]
                rounds = max(1, left // (2 * len(going))) if len(going) > 1 else left
                for each in going:
                    left -= each.go_on(min(rounds, left))
                going = sorted((t for t in going if t.going), key=order, reverse=True)
    ordered = sorted(tried, key=order, reverse=True)
    return tuple(t.ranked(place + 1) for place, t in enumerate(ordered))


def looked(entry: Entry, budget: Budget | None = None, *, among: int = 1) -> Probing:
    """A design after the rounds that every design gets, from which its score is foretold.

    Args:
        entry: The design.
        budget: Of time; without end if not given.
        among: How many designs share what the user allowed.

    Raises:
        Refusal: As for `probe`.

    Cost: 54 passes.
    """
    probing = Probing(
        entry.model,
        entry.batch,
        targets=entry.targets,
        loss=entry.loss,
        optimizer=entry.optimizer,
        rates=entry.rates,
        batch_dim=entry.batch_dim,
        budget=budget,
        rounds=PASSES,
        what="A place in the order",
        among=among,
    )
    for best, rounds in ROUNDS:
        probing.go_on(best, rounds)
    return probing


@dataclass(slots=True)
class _Tried:
    """A design with its probe."""

    name: str
    probing: Probing
    seen: EarlyTraining
    rate: float
    about: str  # the rate, in words
    looked: int  # passes that told the order; those that told rates apart come on top

    @classmethod
    def of(cls, entry: Entry, budget: Budget, *, left: int) -> "_Tried":
        """After the rounds that every design gets, in its part of the time that is left."""
        part = Budget(max(budget.left, 1e-9) / left, budget.tell, clock=budget.clock)
        with _naming(entry.name):
            probing = looked(entry, part, among=left)
            spent = probing.passes
            found = named(probing)
        probing.keep(found.rate)  # the other copies would fill the memory
        probing.wait(budget)
        return cls(entry.name, probing, found.seen, found.rate, found.why, spent)

    @property
    def order(self) -> tuple[float, float]:
        """By the forecast, and where that is the same by the loss that is left."""
        features = self.seen.features()
        return scores.default_model().forecast(features).value, -self.seen.left

    @property
    def best(self) -> Curve:
        """At the rate that is named."""
        return next(c for c in self.seen.curves if c.rate == self.rate)

    @property
    def far(self) -> float:
        """The largest share of the way."""
        return max(farthest(self.best, self.seen), 0.0)

    @property
    def going(self) -> bool:
        """Whether more rounds may show more."""
        return self.probing.alive and self.far < DONE

    def go_on(self, rounds: int) -> int:
        """So many rounds more at the best rate; how many were made."""
        before = self.probing.passes
        self.probing.go_on(1, rounds)
        self.seen = self.seen.with_curves(c for r in self.probing.runs for c in (r.curve(),))
        return max(1, self.probing.passes - before)

    def ranked(self, place: int) -> Ranked:
        """The record."""
        features, shares = self.seen.features(), self.best.reached(self.seen.constant)
        if self.far < PLAIN:
            why = f"No rate took it further than a constant output in {len(shares)} rounds."
        else:
            half = shares[len(shares) // 2 :]
            gained = sum(half[-3:]) / len(half[-3:]) - sum(half[:3]) / len(half[:3])
            how = "and still rising" if gained > PLAIN else "and level"
            why = f"{self.far:.0%} of the way after {len(shares)} rounds, {how}."
        if self.about:
            why += f" {self.about}"
        if lost := sorted(c.rate for c in self.seen.curves if not c.finite):
            why += f" Its loss was not finite at {', '.join(f'{rate:g}' for rate in lost)}."
        return Ranked(
            name=self.name,
            place=place,
            forecast=scores.default_model().forecast(features),
            probability=default_model().probability(features),
            rate=self.rate,
            passes=self.probing.passes,
            why=why,
        )
