"""Training of copies as the user trains, and at other settings beside it.

A run goes on where it stopped, step by step on batches of the user's size, drawn from the samples
that are at hand in an order of its own. Everything is decided by counts and by seeded draws, so
that two diagnoses of one program are the same.
"""

import inspect
import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cache, partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from sigmascope.core.guard import Budget, random_states
from sigmascope.core.records import Brief, Estimate
from sigmascope.diagnosis.programs.optimizers import Recipe
from sigmascope.diagnosis.programs.outputs import NotAtHand, joint_in
from sigmascope.diagnosis.rules.data import OFFSET
from sigmascope.models.layers import called, in_words, layers, recording
from sigmascope.models.samples import Batch, Loss, as_tensor, chosen, run, sample_count
from sigmascope.models.state import duplicate, still
from sigmascope.survey.task import labels_of
from sigmascope.survey.views.task import LARGE_INPUT, SMALL_INPUT

WINDOW = 5  # steps over which a loss is smoothed, at least


class StepFailed(Exception):
    """A training step of the user's raised: the model, the loss, its derivative or the optimizer.

    What else goes wrong in a trial is a limit of this package, and is told as that.
    """


@contextmanager
def users_own() -> Iterator[None]:
    """What is raised in the block is the user's own, but for what cannot be asked of their loss."""
    try:
        yield
    except NotAtHand:
        raise
    except Exception as error:
        raise StepFailed(in_words(error)) from error


@dataclass(frozen=True, slots=True, repr=False)
class TrainingSamples(Brief):
    """The samples at hand, and how training takes them.

    Attributes:
        batch: All of them.
        targets: Theirs.
        loss: What is minimised.
        wanted: Samples that the user takes in a step.
        batch_dim: Where the batch has its samples.
        alone: Whether a sample's share of the loss does not depend on how many are in the batch, as
            that of a mean does not, and that of a sum or of a contrast does.
    """

    batch: Batch
    targets: Tensor
    loss: Loss
    wanted: int
    batch_dim: int = 0
    alone: bool = True

    @property
    def count(self) -> int:
        """Samples at hand."""
        return sample_count(self.batch, batch_dim=self.batch_dim)

    @property
    def size(self) -> int:
        """Samples in a step: as many as are wanted, or all."""
        return min(self.wanted, self.count)

    def draws(self, size: int) -> Iterator[tuple[Batch, Tensor]]:
        """Batches of some size, epoch after epoch, without end; a last single sample is left out.

        Args:
            size: Of a batch.
        """
        generator = torch.Generator().manual_seed(0)
        while True:
            order = torch.randperm(self.count, generator=generator)
            for rows in order.split(size):
                if len(rows) == 1 < size:
                    continue
                if len(rows) == self.count:
                    yield self.batch, self.targets
                else:
                    part = chosen(self.batch, rows, batch_dim=self.batch_dim)
                    yield part, self.targets[rows.to(self.targets.device)]


@dataclass(slots=True)
class TrainingRun:
    """Training of a copy at some settings.

    Attributes:
        recipe: Makes the optimizer.
        size: Samples in a step.
        losses: Before every step.
        finite: Whether every loss was.
        model: The copy.
    """

    recipe: Recipe
    size: int
    model: nn.Module
    losses: list[float] = field(default_factory=list)
    finite: bool = True
    clip: float | None = None
    elsewhere: float = math.nan  # the loss on samples that were not trained on
    _by: torch.optim.Optimizer | None = None
    _draws: Iterator[tuple[Batch, Tensor]] | None = None

    def rest(self) -> None:
        """No step will follow: what only steps need is let go, gradients and moments."""
        self.optimizer.zero_grad()
        self.optimizer.state.clear()

    def forget(self) -> None:
        """Nothing but the losses will be asked for: the copy is let go too."""
        self.model, self._by, self._draws = nn.Identity(), None, None

    @property
    def steps(self) -> int:
        """How many were made."""
        return len(self.losses)

    @property
    def optimizer(self) -> torch.optim.Optimizer:
        """Of the copy."""
        if self._by is None:
            self._by = self.recipe.make(self.model)
        return self._by

    def after(self, steps: int) -> float:
        """The loss around a step, over a quarter of the steps before it; infinite if it broke."""
        if not self.finite and steps >= self.steps:
            return math.inf
        seen = self.losses[:steps]
        width = max(WINDOW, len(seen) // 4)
        return math.fsum(seen[-width:]) / max(len(seen[-width:]), 1) if seen else math.inf

    def go_on(
        self,
        data: TrainingSamples,
        steps: int,
        budget: Budget | None = None,
        *,
        says: str = "",
        enough: Callable[[], bool] = lambda: False,
    ) -> None:
        """Up to so many steps in all, as there is time for, until enough; each is told in words."""
        tell = (budget and budget.progress) or (lambda *_: None)
        if self._draws is None:
            self.model.train()
            self._draws = data.draws(self.size)
        with random_states(self.steps), torch.enable_grad():  # dropout
            timely = lambda: budget is None or budget.left > 0
            while self.finite and self.steps < steps and timely() and not enough():
                again = partial(self._evaluated, data.loss, *next(self._draws))
                value = again()
                if self.finite:
                    self.losses.append(value.item())
                    step: Any = self.optimizer.step
                    with users_own():
                        step(*((again,) if self._searches else ()))
                    tell(says, self.steps, steps)

    @property
    def evaluations(self) -> int:
        """Of the loss in a step, at most: one, but of optimizers that search along a line."""
        group = self.optimizer.param_groups[0]
        return int(group.get("max_iter", 1)) if self._searches else 1

    @property
    def _searches(self) -> bool:
        """Whether the optimizer evaluates the loss itself, as LBFGS does."""
        return _takes_loss(type(self.optimizer))

    def _evaluated(self, loss: Loss, batch: Batch, targets: Tensor) -> Tensor:
        """The loss, whose gradients are made as the optimizer wants them."""
        self.optimizer.zero_grad()
        with users_own():
            value = loss(as_tensor(run(self.model, batch))[0], targets)
        if not value.requires_grad:
            raise StepFailed(
                "The loss must depend on a weight that is trained, got one that depends on none. "
                "Look for `torch.no_grad`, `detach`, `.item()` or NumPy between weights and loss."
            )
        self.finite = bool(value.isfinite())
        if self.finite:
            with users_own():
                value.backward()
            if self.clip is not None:
                nn.utils.clip_grad_norm_(self.model.parameters(), self.clip)
        return value

    @torch.no_grad()
    def output(self, data: TrainingSamples) -> Tensor:
        """On all samples at hand, as in training but without dropout."""
        modes = {m: m.training for m in self.model.modules()}
        for m in modes:
            m.training = isinstance(m, _BatchNorm) and m.training
        try:
            return as_tensor(run(self.model, data.batch))[0]
        finally:
            for m, mode in modes.items():
                m.training = mode


@cache  # a signature is read in the time of a small network's step
def _takes_loss(kind: type[torch.optim.Optimizer]) -> bool:
    closure = inspect.signature(kind.step).parameters.get("closure")
    return closure is not None and closure.default is closure.empty


def started(
    model: nn.Module, recipe: Recipe, size: int, *, clip: float | None = None
) -> TrainingRun:
    """A run that has made no step."""
    return TrainingRun(recipe, size, duplicate(model), clip=clip)


def falling(run: TrainingRun) -> Estimate | None:
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


@torch.no_grad()
def work_of(model: nn.Module, data: TrainingSamples) -> float:
    """Multiplications that layers need for one sample, forward; measured in one run."""
    total = 0.0
    with still(model), recording(layers(model)) as tape:
        called(model, data.batch)
    for c in tape.calls:
        own = [p for p in c.module.parameters() if p.ndim > 1]
        channels = max(next((p.shape[0] for p in own), 1), 1)
        total += c.output.numel() / channels * sum(p.numel() for p in own)
    return total / max(data.count, 1)


def scaled_inputs(data: TrainingSamples) -> TrainingSamples | None:
    """The same with inputs of unit size, each feature of a table by itself; None where they are.

    Inputs whose mean dwarfs their spread are of no unit size either.
    """
    x = data.batch
    if not isinstance(x, Tensor) or not x.is_floating_point():
        return None
    size = float(x.double().square().mean().sqrt())
    spread = float(x.double().std(data.batch_dim, correction=0).square().mean().sqrt())
    offset = spread < OFFSET * size
    if SMALL_INPUT <= size <= LARGE_INPUT and not offset:
        return None
    apart = data.batch_dim if x.ndim == 2 else tuple(range(x.ndim))
    stray, mean = torch.std_mean(x, apart, correction=0, keepdim=True)
    unit = torch.where(stray > 0, stray, torch.ones_like(stray))
    return replace(data, batch=(x - mean) / unit)


def in_batches(data: TrainingSamples, output: Tensor) -> TrainingSamples:
    """The same with a loss that is worth what it is to the user, whose batches may be others.

    A loss that is a sum over samples is larger in a batch of two thousand than in the 128 that are
    at hand of it, and so are its gradients.

    Args:
        data: Samples at hand.
        output: Of the model for all of them; only its form matters, and where the loss is finite.
    """
    half = data.count // 2
    if half < 1 or len(output) != data.count or len(data.targets) != data.count:
        return data
    try:
        with torch.no_grad(), random_states():
            whole = float(data.loss(output, data.targets))
            parts = [float(data.loss(output[rows], data.targets[rows]))
                     for rows in (slice(0, half), slice(half, 2 * half))]  # fmt: skip
    except Exception:  # noqa: BLE001 (a loss may take batches of one size alone)
        return replace(data, alone=False)
    mean = sum(parts) / 2
    same = abs(whole - mean) <= 0.02 * max(abs(whole), abs(mean)) + 0.1 * abs(parts[0] - parts[1])
    if same or not all(map(math.isfinite, (whole, mean))):
        return data
    is_sum = abs(whole - sum(parts)) <= 0.02 * abs(whole)
    if not is_sum or data.size == data.wanted:
        return replace(data, alone=False)
    loss, times = data.loss, data.wanted / data.size
    return replace(data, alone=False, loss=lambda o, y: times * loss(o, y))


# ------------------------------------------------------------------------------
# How good training is: scores at its end, and the probability that it gets under way.


UNDERWAY = 0.55  # left, by which half of the variance, or of the classes, is told as a rule
NINETY = 1.645  # standard deviations on either side of nine tenths
LEAST_SPREAD = 0.2  # of the logarithm of what is left, between this sample and all data
FLOOR = 0.005


def chance_below(left: Estimate) -> Estimate:
    """Probability that less than `UNDERWAY` is left, if the logarithm errs as the interval says.

    Args:
        left: At the end of training.
    """
    tiny = 1e-9
    value, ends = math.log(max(left.value, tiny)), (left.low, left.high)
    aim = math.log(UNDERWAY)
    side = ends[1] if aim > value else ends[0]
    spread = max(abs(math.log(max(side, tiny)) - value) / NINETY, LEAST_SPREAD)
    z = (aim - value) / spread
    p = min(max(0.5 * (1 + math.erf(z / math.sqrt(2))), FLOOR), 1 - FLOOR)
    return Estimate.exactly(p, how=f"from what is left at the end: {left.how}")


def score_of(run: TrainingRun, data: TrainingSamples) -> float | None:
    """Accuracy, or share of the targets' variance that is explained, on the samples at hand."""
    output = run.output(data)
    joint = joint_in(run.model)
    own = None if joint is None else joint.columns_like(data.targets)
    if own is not None and output.ndim == 2:
        output = output[:, own.to(output.device)].reshape(data.targets.shape)
    labels = labels_of(output, data.targets)
    if labels is None or not bool(output.isfinite().all()):
        return None
    wanted = labels.wanted
    if wanted is not None and wanted.shape[labels.dim] > 1 and labels.exclusive:
        right = output.argmax(labels.dim) == wanted.to(output).argmax(labels.dim)
        right = right if labels.counted is None else right[labels.counted.to(right.device)]
        return right.double().mean().item()
    if wanted is not None:
        return ((output > boundary(output, data)) == wanted).double().mean().item()
    if data.targets.shape != output.shape:
        return None
    y = data.targets.double()
    error, spread = (y - output.double()).square().sum(), (y - y.mean(0)).square().sum()
    return max(1.0 - float(error / spread), -1.0) if float(spread) > 0 else None


def boundary(output: Tensor, data: TrainingSamples) -> float:
    """Between no and yes: the output at which the loss of both is the same, 0 or one half."""

    def gap(at: float) -> float:
        made = torch.full_like(output, at)
        with torch.no_grad():
            yes, no = (float(data.loss(made, torch.full_like(data.targets, y))) for y in (1.0, 0.0))
        return abs(yes - no)

    try:
        return min((0.5, 0.0), key=gap)
    except Exception:  # noqa: BLE001 (a loss may raise anything of targets that are made up)
        return 0.5
