"""A few steps of training on copies, and what they show."""

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from torch import Tensor, nn

from sigmascope.core.guard import Budget, Refusal
from sigmascope.diagnosis.trainability.copies import (
    MOMENTS,
    RATES,
    Optimizer,
    Pace,
    RateRun,
    Turns,
    minibatches,
)
from sigmascope.diagnosis.trainability.curves import UNDERWAY, EarlyTraining, windows
from sigmascope.models.layers import in_words
from sigmascope.models.samples import (
    Batch,
    Loss,
    beside,
    prepared,
    require_finite_targets,
    require_task,
    sample_count,
)
from sigmascope.models.state import still
from sigmascope.survey.task import constant_loss

ROUNDS = ((4, 5), (2, 5), (1, 12))  # how many of the best rates go on, and for how many rounds
PASSES = sum(count * rounds for count, rounds in ROUNDS)
LONGER = 16  # rounds more of two rates, where nothing is decided: some sit on a plateau for long
MOST = 256  # samples
WHAT = "The probability of fitting"


def probe(
    model: nn.Module,
    batch: Batch,
    *,
    targets: Any,
    loss: Loss,
    optimizer: Optimizer = "adam",
    rates: Sequence[float] | None = None,
    batch_dim: int = 0,
    budget: Budget | float | None = None,
    enough: Callable[[EarlyTraining], bool] | None = None,
) -> EarlyTraining:
    """Train copies of a model at four rates for five rounds each, the better ones for longer.

    Where none has come half of the way by then, two go on for 16 rounds more: the best, and of the
    others that with the least loss, which tells more than outputs do on a plateau of many classes.

    A round is eight steps of an eighth of the samples (fewer of eight, where there are fewer than
    64): as dear as a pass of all of them, and more is learnt in it. Where samples belong together
    (a loss that compares them, a model for one number of samples, targets that are not one for
    each) a round is one step of all, and less can be seen.

    Args:
        model: At its initial weights; left as it is. Copies are trained in training mode.
        batch: Up to 256 samples.
        targets: Theirs.
        loss: What is minimised.
        optimizer: Heavy-ball SGD or Adam.
        rates: Learning rates to try; the usual four of the optimizer if not given.
        batch_dim: Where the batch has its samples.
        budget: Seconds that it may take, kept to within a step; None for as long as it takes.
        enough: Whether what was seen, which more rounds can only raise, decides already: then none
            goes on for longer.

    Raises:
        OverBudget: As soon as it is known that not all steps will be made in time.
        Refusal: If nothing is trained, there is no room for the copies, there are more samples, the
            targets are not finite or do not suit the outputs, a rate is not above zero, or the
            model or the loss fails.

    Cost: 42 forward and backward passes of the batch, or 74, and the least loss of a constant.
    """
    probing = Probing(
        model,
        batch,
        targets=targets,
        loss=loss,
        optimizer=optimizer,
        rates=rates,
        batch_dim=batch_dim,
        budget=budget,
    )
    for best, rounds in ROUNDS:
        probing.go_on(best, rounds)
    seen = probing.seen()
    if seen.reached >= UNDERWAY or not probing.alive or (enough is not None and enough(seen)):
        return seen
    probing.pace.steps += 2 * LONGER * probing.data.steps
    for rate in probing.hopeful():
        probing.go_on_at(rate, LONGER)
    return seen.with_curves(run.curve() for run in probing.runs)


@contextmanager
def _told() -> Iterator[None]:
    """Whatever a model or a loss raises in training, as a refusal."""
    try:
        yield
    except Refusal:
        raise
    except Exception as error:
        raise Refusal(
            f"A copy of the model must make steps of training on the batch, but {in_words(error)}. "
            "Make one by hand (`loss(model(batch), targets).backward()`), and see what fails."
        ) from error


class Probing:
    """A probe that can go on; the arguments are those of `probe`.

    Copies take turns. Of a small model all stay in memory; of a larger one that whose turn it is,
    and the others wait in temporary files (`Parking`), so that at most the copy's weights, their
    gradients, the one or two moments of the optimizer and what holds the model still (`still`) are
    there beside the model: five times the bytes of its parameters. Nothing is computed twice, and
    every reading has the bits that it would have if all were there at once.

    Attributes:
        passes: Of all samples that were made, forward and backward.
        pace: Of the steps, against the budget.
    """

    def __init__(
        self,
        model: nn.Module,
        batch: Batch,
        *,
        targets: Any,
        loss: Loss,
        optimizer: Optimizer = "adam",
        rates: Sequence[float] | None = None,
        batch_dim: int = 0,
        budget: Budget | float | None = None,
        rounds: int = PASSES,
        what: str = WHAT,
        among: int = 1,
    ) -> None:
        if optimizer not in RATES:
            raise Refusal(f"`optimizer` must be one of {', '.join(RATES)}, got {optimizer!r}.")
        if rates is not None and not (len(rates) and all(0 < r < math.inf for r in rates)):
            raise Refusal(f"`rates` must be one or more finite numbers above 0, got {rates!r}.")
        count = sample_count(batch, batch_dim=batch_dim)
        if count > MOST:
            raise Refusal(f"A probe takes up to {MOST} samples, got {count}. Pass fewer.")
        require_finite_targets(targets)
        ready, targets = prepared(model, batch), beside(model, targets)
        targets = targets.clone() if isinstance(targets, Tensor) else targets
        self.model, self.loss, self.passes = model, loss, 0
        suits = lambda out: require_task(out, targets, loss, count=count, batch_dim=batch_dim)
        self.runs = [RateRun(optimizer, rate, suits) for rate in rates or RATES[optimizer]]
        self._turns = Turns(model, len(self.runs), MOMENTS[optimizer])
        self.pace = Pace(Budget.of(budget), what, rounds, self._turns.words, among)
        with self.pace.budget.counting(), _told(), still(model):
            self.data = minibatches(model, ready, targets, loss, count=count, batch_dim=batch_dim)
        self.pace.steps = rounds * self.data.steps

    def go_on(self, best: int, rounds: int) -> None:
        """So many rounds more for each of the best rates; one that is lost hands its rounds on.

        Raises:
            OverBudget: Where not all steps will be made in time.
        """
        left = best * rounds
        for each in self._alive():
            wanted = min(rounds if best > 1 else left, left)
            if wanted:
                left -= self._turn(each, wanted)

    def go_on_at(self, rate: float, rounds: int) -> None:
        """So many rounds more at one of the rates, unless it is lost.

        Raises:
            OverBudget: Where there is no time left.
        """
        for each in self.runs:
            if each.rate == rate and each.finite and rounds:
                self._turn(each, rounds)

    def _turn(self, one: RateRun, rounds: int) -> int:
        before, done = len(one.rounds), 0
        with self.pace.budget.counting():
            self._turns.take(one)
            try:
                # still, for what copies share with it, random states and settings
                with _told(), still(self.model):
                    done = one.go_on(self.data, self.loss, rounds, self.pace)
            finally:  # a step that there is no time for does not take back the others
                self.passes += done or len(one.rounds) - before
            self.pace.made = self.passes * self.data.steps  # a lost rate's last round counts whole
            self._turns.settle(one)
        if not one.finite:
            one.close()
        return done

    def keep(self, rate: float) -> None:
        """Let go of the copies at all rates but one."""
        for lost in (r for r in self.runs if r.rate != rate):
            lost.close()
        self.runs = [r for r in self.runs if r.rate == rate]

    def wait(self, budget: Budget) -> None:
        """Give back the memory until it goes on, with all of a budget and no plan."""
        self._turns.take(None)
        self.pace.budget, self.pace.steps = budget, 0

    def hopeful(self) -> list[float]:
        """Of the rates that are not lost that with the most promise, and the least loss beside."""
        first, *others = self._alive()
        others.sort(key=lambda r: min(windows(r.curve().losses), default=math.inf))
        return [r.rate for r in (first, *others[:1])]

    def _alive(self) -> list[RateRun]:
        """Rates that are not lost, the most promising first."""
        return sorted((r for r in self.runs if r.finite), key=lambda r: -r.curve().promise)

    @property
    def alive(self) -> bool:
        """Whether a copy is left that can go on."""
        return any(r.finite for r in self.runs)

    def seen(self) -> EarlyTraining:
        """What was seen so far."""
        curves = sorted((r.curve() for r in self.runs), key=lambda c: -c.progress)
        with still(self.model):
            constant = constant_loss(self.runs[0].output, self.data.targets, self.loss)
        return EarlyTraining(tuple(curves), constant)
