"""Training of copies as the user trains, and at other settings beside it.

A run goes on where it stopped, step by step on batches of the user's size, drawn from the samples
that are at hand in an order of its own. Everything is decided by counts and by seeded draws, so
that two diagnoses of one program are the same.
"""

import inspect
import math
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

from sigmascope.diagnosis.programs.optimisers import Recipe
from sigmascope.gate import Budget, Refusal, random_states
from sigmascope.probes.execution import called, duplicate, layers, recording, still
from sigmascope.probes.samples import Batch, Loss, as_tensor, chosen, run, sample_count

LARGE_INPUT, SMALL_INPUT = 30.0, 0.01  # root mean square, beyond which inputs are tried scaled
WINDOW = 5  # steps over which a loss is smoothed, at least


@dataclass(frozen=True, slots=True)
class Data:
    """The samples at hand, and how training takes them.

    Attributes:
        batch: All of them.
        targets: Theirs.
        loss: What is minimised.
        wanted: Samples that the user takes in a step.
        batch_dim: Where the batch has its samples.
    """

    batch: Batch
    targets: Tensor
    loss: Loss
    wanted: int
    batch_dim: int = 0

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
                if len(rows) > 1 or size == 1:
                    yield self._taken(rows)

    def _taken(self, rows: Tensor) -> tuple[Batch, Tensor]:
        if len(rows) == self.count:
            return self.batch, self.targets
        part = chosen(self.batch, rows, batch_dim=self.batch_dim)
        return part, self.targets[rows.to(self.targets.device)]


@dataclass(slots=True)
class Run:
    """Training of a copy at some settings.

    Attributes:
        recipe: Makes the optimiser.
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
    _by: torch.optim.Optimizer | None = None
    _draws: Iterator[tuple[Batch, Tensor]] | None = None

    def rest(self) -> None:
        """No step will follow: what only steps need is let go, gradients and moments."""
        self.optimiser.zero_grad()
        self.optimiser.state.clear()

    def forget(self) -> None:
        """Nothing but the losses will be asked for: the copy is let go too."""
        self.model, self._by, self._draws = nn.Identity(), None, None

    @property
    def steps(self) -> int:
        """How many were made."""
        return len(self.losses)

    @property
    def optimiser(self) -> torch.optim.Optimizer:
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

    def go_on(self, data: Data, steps: int, budget: Budget | None = None) -> None:
        """Up to so many steps in all, or as many as there is time for."""
        if self._draws is None:
            self.model.train()
            self._draws = data.draws(self.size)
        with random_states(self.steps), torch.enable_grad():  # dropout
            while self.finite and self.steps < steps and (budget is None or budget.left > 0):
                self._step(data.loss, *next(self._draws))

    @property
    def evaluations(self) -> int:
        """Of the loss in a step, at most: one, but of optimisers that search along a line."""
        group = self.optimiser.param_groups[0]
        return int(group.get("max_iter", 1)) if self._searches else 1

    @property
    def _searches(self) -> bool:
        """Whether the optimiser evaluates the loss itself, as LBFGS does."""
        closure = inspect.signature(self.optimiser.step).parameters.get("closure")
        return closure is not None and closure.default is closure.empty

    def _step(self, loss: Loss, batch: Batch, targets: Tensor) -> None:
        value = self._evaluated(loss, batch, targets)
        if self.finite:
            self.losses.append(value.item())
            step: Any = self.optimiser.step
            step(*(partial(self._evaluated, loss, batch, targets),) if self._searches else ())

    def _evaluated(self, loss: Loss, batch: Batch, targets: Tensor) -> Tensor:
        """The loss, whose gradients are made as the optimiser wants them."""
        self.optimiser.zero_grad()
        value = loss(as_tensor(run(self.model, batch))[0], targets)
        if not value.requires_grad:
            raise Refusal(
                "The loss must depend on a weight that is trained, got one that depends on none. "
                "Look for `torch.no_grad`, `detach`, `.item()` or NumPy between weights and loss."
            )
        self.finite = bool(value.isfinite())
        if self.finite:
            value.backward()
            if self.clip is not None:
                nn.utils.clip_grad_norm_(self.model.parameters(), self.clip)
        return value

    @torch.no_grad()
    def output(self, data: Data) -> Tensor:
        """On all samples at hand, as in training but without dropout."""
        modes = {m: m.training for m in self.model.modules()}
        for m in modes:
            m.training = isinstance(m, _BatchNorm) and m.training
        try:
            return as_tensor(run(self.model, data.batch))[0]
        finally:
            for m, mode in modes.items():
                m.training = mode


def started(model: nn.Module, recipe: Recipe, size: int, *, clip: float | None = None) -> Run:
    """A run that has made no step."""
    return Run(recipe, size, duplicate(model), clip=clip)


@torch.no_grad()
def work_of(model: nn.Module, data: Data) -> float:
    """Multiplications that layers need for one sample, forward; measured in one run."""
    total = 0.0
    with still(model), recording(layers(model)) as tape:
        called(model, data.batch)
    for c in tape.calls:
        own = [p for p in c.module.parameters() if p.ndim > 1]
        channels = max(next((p.shape[0] for p in own), 1), 1)
        total += c.output.numel() / channels * sum(p.numel() for p in own)
    return total / max(data.count, 1)


def scaled_inputs(data: Data) -> Data | None:
    """The same with inputs of unit size, each feature of a table by itself; None where they are."""
    x = data.batch
    if not isinstance(x, Tensor) or not x.is_floating_point():
        return None
    if SMALL_INPUT <= float(x.double().square().mean().sqrt()) <= LARGE_INPUT:
        return None
    apart = data.batch_dim if x.ndim == 2 else tuple(range(x.ndim))
    spread, mean = torch.std_mean(x, apart, correction=0, keepdim=True)
    unit = torch.where(spread > 0, spread, torch.ones_like(spread))
    return replace(data, batch=(x - mean) / unit)
