"""A few steps of training on copies, and what they show."""

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal, final

import torch
from torch import Tensor, nn

from sigmascope.diagnosis.trainability.target_r2 import target_share
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
ROUNDS = ((4, 5), (2, 6), (1, 22))  # how many of the best rates go on, and for how many steps
PASSES = sum(count * steps for count, steps in ROUNDS)
MOST = 256  # samples
WINDOW = 3  # steps over which a curve is smoothed
LEAST = 1e-8  # of an alignment
MARGIN = 0.01  # from 0 and 1, of a share whose odds are taken


@final
@dataclass(frozen=True, slots=True)
class Curve:
    """Training at one rate, step by step, until it was left or its loss was not finite.

    Attributes:
        rate: The learning rate.
        losses: Before every step.
        told: Share of the variance of the targets that a linear map of the outputs explains.
        aligned: Coefficient of the targets in the outputs, both centred: 1 where outputs of unit
            scale have reached them; next to 0 where all samples get nearly the same output.
        finite: Whether every loss was.
    """

    rate: float
    losses: tuple[float, ...]
    told: tuple[float, ...]
    aligned: tuple[float, ...]
    finite: bool

    @property
    def progress(self) -> float:
        """The most that a window of three steps shows of the targets, on a logarithmic scale.

        `log10 min(aligned, 1) + log(told / (1 - told))`: outputs must tell samples apart, and in
        the way of the targets. Their scale is in it up to one only, so that loud outputs are not
        taken for good ones.
        """
        each = [
            math.log10(min(max(c, LEAST), 1.0)) + _log_odds(t)
            for c, t in zip(self.aligned, self.told, strict=True)
        ]
        return max(_windows(each), default=math.log10(LEAST) + _log_odds(0.0))


@final
@dataclass(frozen=True, slots=True)
class Probe:
    """What a network does in its first steps.

    Attributes:
        curves: At each rate, the one with the most progress first.
        constant: Loss of the best constant output.
    """

    curves: tuple[Curve, ...]
    constant: float

    def features(self) -> dict[str, float]:
        """The numbers from which a probability is made."""
        left = min((m for c in self.curves for m in _windows(c.losses)), default=math.inf)
        ratio = left / self.constant if self.constant > 0 else math.inf
        best = self.curves[0].progress
        return {
            "progress": best,
            "loss left": math.log10(min(max(ratio, 1e-3), 1e3)),
        }


def probe(
    model: nn.Module,
    batch: Batch,
    *,
    targets: Any,
    loss: Loss,
    optimiser: Optimiser = "adam",
    batch_dim: int = 0,
) -> Probe:
    """Train copies of a model at four rates for five steps each, the better ones for longer.

    Args:
        model: At its initial weights; left as it is. Copies are trained in training mode.
        batch: Up to 256 samples.
        targets: Theirs.
        loss: What is minimised.
        optimiser: Heavy-ball SGD or Adam.
        batch_dim: Where the batch has its samples.

    Raises:
        Refusal: If nothing is trained, there are more samples, the targets are not finite or do not
            suit the outputs, or the model or the loss fails.

    Cost: 54 forward and backward passes, and the least loss of a constant.
    """
    if optimiser not in RATES:
        raise Refusal(f"`optimiser` must be one of {', '.join(RATES)}, got {optimiser!r}.")
    count = sample_count(batch, batch_dim=batch_dim)
    if count > MOST:
        raise Refusal(f"A probe takes up to {MOST} samples, got {count}. Pass fewer.")
    require_finite_targets(targets)
    ready = prepared(model, batch)
    targets = targets.clone() if isinstance(targets, Tensor) else targets
    suits = lambda out: require_task(out, targets, loss, count=count, batch_dim=batch_dim)
    runs = [_Run(model, optimiser, rate, suits) for rate in RATES[optimiser]]
    with still(model):  # what copies share with it, random states and settings stay as they are
        return _probed(runs, ready, targets, loss)


def _probed(runs: "list[_Run]", ready: Batch, targets: Any, loss: Loss) -> Probe:
    for best, steps in ROUNDS:
        alive = sorted((r for r in runs if r.finite), key=lambda r: -r.curve().progress)
        left = best * steps
        for one in alive:
            wanted = steps if best > 1 else left  # the last round goes on with the next best
            if left > 0:
                left -= one.go_on(ready, targets, loss, min(wanted, left))
    curves = sorted((r.curve() for r in runs), key=lambda c: -c.progress)
    return Probe(tuple(curves), constant_loss(runs[0].output, targets, loss))


class _Run:
    """Training of a copy at one rate, which can go on."""

    def __init__(
        self, model: nn.Module, optimiser: Optimiser, rate: float, suits: Callable[[Tensor], None]
    ) -> None:
        self._suits = suits  # raises unless the targets suit the first output
        self.model = duplicate(model).train()
        parameters = [p for p in self.model.parameters() if p.requires_grad]
        if not parameters:
            raise Refusal("There must be parameters to train, got none that require gradients.")
        self.rate = rate
        self.by = optimiser_of(parameters, optimiser, rate)
        self.losses: list[float] = []
        self.told: list[float] = []
        self.aligned: list[float] = []
        self.finite = True
        self.output = torch.zeros(0)

    def curve(self) -> Curve:
        """What was seen so far."""
        seen = (tuple(self.losses), tuple(self.told), tuple(self.aligned))
        return Curve(self.rate, *seen, self.finite)

    def go_on(self, batch: Batch, targets: Any, loss: Loss, steps: int) -> int:
        """So many steps more, each with what it shows; how many were made."""
        with torch.random.fork_rng(devices=[]), torch.enable_grad():
            for done in range(steps):
                self.by.zero_grad()
                output = as_tensor(run(self.model, batch))[0]
                if not len(self.losses):
                    self.output = output.detach()
                    self._suits(self.output)
                value = loss(output, targets)
                if not bool(value.isfinite()):
                    self.finite = False
                    return done + 1
                told, aligned = target_share(output.detach(), targets)
                self.losses.append(value.item())
                self.told.append(told)
                self.aligned.append(aligned)
                self._step(value)
        return steps

    def _step(self, value: Tensor) -> None:
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


def _windows(values: Sequence[float]) -> Iterator[float]:
    """Means of consecutive windows."""
    for end in range(WINDOW, len(values) + 1):
        yield sum(values[end - WINDOW : end]) / WINDOW


def _log_odds(share: float) -> float:
    return math.log((share + MARGIN) / (1 - share + MARGIN))
