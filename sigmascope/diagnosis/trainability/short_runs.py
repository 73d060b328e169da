"""A few steps of training on copies, and what they show."""

import math
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Literal

import torch
from torch import Tensor, nn

from sigmascope.diagnosis.trainability.curves import Curve, Probe
from sigmascope.diagnosis.trainability.minibatches import Minibatches, minibatches
from sigmascope.diagnosis.trainability.target_r2 import right_share, target_share, thinned
from sigmascope.gate import Refusal
from sigmascope.probes.execution import duplicate, still
from sigmascope.probes.samples import (
    Batch,
    Loss,
    as_tensor,
    prepared,
    require_finite_targets,
    require_task,
    run,
    sample_count,
)
from sigmascope.survey.task import constant_loss

Optimiser = Literal["sgd", "adam"]
RATES: dict[Optimiser, tuple[float, ...]] = {
    "sgd": (1e-3, 1e-2, 1e-1, 1.0),
    "adam": (3e-4, 1e-3, 3e-3, 1e-2),
}
ROUNDS = ((4, 5), (2, 5), (1, 12))  # how many of the best rates go on, and for how many rounds
PASSES = sum(count * rounds for count, rounds in ROUNDS)
MOST = 256  # samples


def probe(
    model: nn.Module,
    batch: Batch,
    *,
    targets: Any,
    loss: Loss,
    optimiser: Optimiser = "adam",
    rates: Sequence[float] | None = None,
    batch_dim: int = 0,
) -> Probe:
    """Train copies of a model at four rates for five rounds each, the better ones for longer.

    A round is eight steps of an eighth of the samples (fewer of eight, where there are fewer than
    64): as dear as a pass of all of them, and more is learnt in it. Where samples belong together
    (a loss that compares them, a model for one number of samples, targets that are not one for
    each) a round is one step of all, and less can be seen.

    Args:
        model: At its initial weights; left as it is. Copies are trained in training mode.
        batch: Up to 256 samples.
        targets: Theirs.
        loss: What is minimised.
        optimiser: Heavy-ball SGD or Adam.
        rates: Learning rates to try; the usual four of the optimiser if not given.
        batch_dim: Where the batch has its samples.

    Raises:
        Refusal: If nothing is trained, there are more samples, the targets are not finite or do not
            suit the outputs, a rate is not above zero, or the model or the loss fails.

    Cost: 42 forward and backward passes of the batch, and the least loss of a constant.
    """
    probing = Probing(
        model,
        batch,
        targets=targets,
        loss=loss,
        optimiser=optimiser,
        rates=rates,
        batch_dim=batch_dim,
    )
    for best, rounds in ROUNDS:
        probing.go_on(best, rounds)
    return probing.seen()


class Probing:
    """A probe that can go on; the arguments are those of `probe`."""

    def __init__(
        self,
        model: nn.Module,
        batch: Batch,
        *,
        targets: Any,
        loss: Loss,
        optimiser: Optimiser = "adam",
        rates: Sequence[float] | None = None,
        batch_dim: int = 0,
    ) -> None:
        count = _require(batch, targets, optimiser, rates, batch_dim)
        ready = prepared(model, batch)
        targets = targets.clone() if isinstance(targets, Tensor) else targets
        self.model, self.loss, self.passes = model, loss, 0
        suits = lambda out: require_task(out, targets, loss, count=count, batch_dim=batch_dim)
        self.runs = [_Run(model, optimiser, rate, suits) for rate in rates or RATES[optimiser]]
        with still(model):
            self.data = minibatches(model, ready, targets, loss, count=count, batch_dim=batch_dim)

    def go_on(self, best: int, rounds: int) -> None:
        """So many rounds more for each of the best rates; one that is lost hands its rounds on."""
        left = best * rounds
        alive = sorted((r for r in self.runs if r.finite), key=lambda r: -r.curve().progress)
        with still(self.model):  # what copies share with it, random states and settings stay
            for each in alive:
                wanted = min(rounds if best > 1 else left, left)
                left -= each.go_on(self.data, self.loss, wanted)
        self.passes += best * rounds - left

    def keep(self, best: int) -> None:
        """Let go of the copies at all but the best rates."""
        self.runs = sorted(self.runs, key=lambda r: (not r.finite, -r.curve().progress))[:best]

    @property
    def alive(self) -> bool:
        """Whether a copy is left that can go on."""
        return any(r.finite for r in self.runs)

    def seen(self) -> Probe:
        """What was seen so far."""
        curves = sorted((r.curve() for r in self.runs), key=lambda c: -c.progress)
        with still(self.model):
            constant = constant_loss(self.runs[0].output, self.data.targets, self.loss)
        return Probe(tuple(curves), constant)


def _require(
    batch: Batch, targets: Any, optimiser: str, rates: Sequence[float] | None, batch_dim: int
) -> int:
    """How many samples there are, of a probe that can be made."""
    if optimiser not in RATES:
        raise Refusal(f"`optimiser` must be one of {', '.join(RATES)}, got {optimiser!r}.")
    if rates is not None and not (len(rates) and all(0 < r < math.inf for r in rates)):
        raise Refusal(f"`rates` must be one or more finite numbers above 0, got {rates!r}.")
    count = sample_count(batch, batch_dim=batch_dim)
    if count > MOST:
        raise Refusal(f"A probe takes up to {MOST} samples, got {count}. Pass fewer.")
    require_finite_targets(targets)
    return count


class _Run:
    """Training of a copy at one rate, which can go on."""

    def __init__(
        self,
        model: nn.Module,
        optimiser: Optimiser,
        rate: float,
        suits: Callable[[Tensor], None],
    ) -> None:
        self._suits = suits  # raises unless the targets suit the first output
        self.model = duplicate(model).train()
        parameters = [p for p in self.model.parameters() if p.requires_grad]
        if not parameters:
            raise Refusal("There must be parameters to train, got none that require gradients.")
        self.rate = rate
        self.by = optimiser_of(parameters, optimiser, rate)
        self.batches: Iterator[tuple[Batch, Any]] | None = None
        self.rounds: list[tuple[float, float, float, float | None]] = []
        self.steps: list[float] = []
        self.finite = True
        self.output = torch.zeros(())  # of all samples, at the start

    def curve(self) -> Curve:
        """What was seen so far."""
        losses, told, aligned, right = zip(*self.rounds, strict=True) if self.rounds else ((),) * 4
        known = None if None in right or not right else right
        return Curve(self.rate, losses, told, aligned, self.finite, known, tuple(self.steps))

    def go_on(self, data: Minibatches, loss: Loss, rounds: int) -> int:
        """So many rounds more, each with what it shows; how many were made."""
        self.batches = self.batches or data.each()
        with torch.random.fork_rng(devices=[]), torch.enable_grad():
            for done in range(rounds):
                pairs = [self._step(*next(self.batches), data, loss) for _ in range(data.steps)
                         if self.finite]  # fmt: skip
                if not self.finite:
                    return done + 1
                self.rounds.append(_shown(self.steps[-data.steps :], pairs))
        return rounds

    def _step(self, batch: Batch, targets: Any, data: Minibatches, loss: Loss) -> Any:
        """One step; rows of its outputs and targets, if they can be compared."""
        self.by.zero_grad()
        output = as_tensor(run(self.model, batch))[0]
        if not self.output.ndim:
            self.output = data.whole(output.detach())
            self._suits(self.output)
        value = loss(output, targets)
        self.finite = bool(value.isfinite())
        if not self.finite:
            return None
        self.steps.append(value.item())
        pair = thinned(output.detach(), targets, data.rows)
        self._follow(value)
        return pair

    def _follow(self, value: Tensor) -> None:
        try:
            value.backward()
        except RuntimeError as error:
            words = " ".join(str(error).split())[:200]
            raise Refusal(
                f"A training step of the model must work, autograd says: {words}"
            ) from error
        for group in self.by.param_groups:
            for p in group["params"]:
                if p.grad is not None and p.grad.layout != p.layout == torch.strided:
                    p.grad = p.grad.to_dense()  # which plain optimisers want
        self.by.step()


def optimiser_of(
    parameters: Sequence[nn.Parameter], optimiser: Optimiser, rate: float
) -> torch.optim.Optimizer:
    """Adam, or SGD with momentum 0.9: what is meant by plain training."""
    plain = all(p.is_floating_point() for p in parameters)  # fused steps take no complex numbers
    if optimiser == "adam":
        return torch.optim.Adam(parameters, lr=rate, fused=plain)
    return torch.optim.SGD(parameters, lr=rate, momentum=0.9, fused=plain)


def _shown(
    losses: Sequence[float], pairs: Sequence[Any]
) -> tuple[float, float, float, float | None]:
    """Of one round: mean loss, share told, alignment, and share of right answers."""
    mean = sum(losses) / len(losses)
    if any(pair is None for pair in pairs):
        return mean, 0.0, 0.0, None
    output, targets = (torch.cat(rows) for rows in zip(*pairs, strict=True))
    return mean, *target_share(output, targets), right_share(output, targets)
