"""Training of a copy at one rate, round by round, and what it shows."""

from collections.abc import Callable, Iterator, Sequence
from typing import Any, Literal

import torch
from torch import Tensor, nn

from sigmascope.diagnosis.trainability.curves import Curve
from sigmascope.diagnosis.trainability.minibatches import Minibatches
from sigmascope.diagnosis.trainability.paces import Pace
from sigmascope.diagnosis.trainability.target_r2 import right_share, target_share, thinned
from sigmascope.diagnosis.trainability.turns import Turn
from sigmascope.gate import Refusal, random_states
from sigmascope.probes.samples import Batch, Loss, as_tensor, run

Optimiser = Literal["sgd", "adam"]
RATES: dict[Optimiser, tuple[float, ...]] = {
    "sgd": (1e-3, 1e-2, 1e-1, 1.0),
    "adam": (3e-4, 1e-3, 3e-3, 1e-2),
}
MOMENTS: dict[Optimiser, int] = {"sgd": 1, "adam": 2}  # tensors that it keeps for each weight


class RateRun(Turn):
    """Training of a copy at one rate, which can go on."""

    def __init__(self, optimiser: Optimiser, rate: float, suits: Callable[[Tensor], None]) -> None:
        super().__init__(lambda parameters: optimiser_of(parameters, optimiser, rate))
        self._suits = suits  # raises unless the targets suit the first output
        self.rate = rate
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

    def go_on(self, data: Minibatches, loss: Loss, rounds: int, pace: Pace) -> int:
        """So many rounds more, each with what it shows; how many were made."""
        self.batches = batches = self.batches or data.each()
        step = lambda: self._step(*next(batches), data, loss)
        with random_states(), torch.enable_grad():
            for done in range(rounds):
                pairs = [pace.made_in_time(step) for _ in range(data.steps) if self.finite]
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
