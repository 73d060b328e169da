"""What training reaches: the truth that a prediction is compared with."""

from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from sigmascope.diagnosis.trainability import RATES, Optimizer, optimizer_of

BATCH, EVERY = 128, 25
FIRST, MOST, PATIENCE = 150, 1200, 300  # steps
ENOUGH = 0.9  # at which training may stop
FITS = 0.5  # half the samples right, or half the variance explained


def loss_of(y: Tensor) -> Callable[[Tensor, Tensor], Tensor]:
    """Cross-entropy for classes, squared error for values."""
    return F.mse_loss if y.is_floating_point() else F.cross_entropy


def score(model: nn.Module, x: Tensor, y: Tensor) -> float:
    """Training accuracy, or explained variance; at least 0."""
    with torch.no_grad():
        out = model(x)
    if not bool(out.isfinite().all()):
        return 0.0
    if y.is_floating_point():
        left = (out - y).square().mean() / (y - y.mean(0)).square().mean()
        return max(0.0, 1 - left.item())
    return (out.argmax(1) == y).double().mean().item()


def best_score(
    make: Callable[[], nn.Module],
    optimizer: Optimizer,
    x: Tensor,
    y: Tensor,
    *,
    enough: float = ENOUGH,
) -> float:
    """The best that training at the best of four rates reaches.

    Each rate gets 150 steps; the best of them goes on to 1200, or until 300 steps brought no more.
    A score that is enough ends the search: 0.9 where all that matters is whether it fits.
    """
    runs = []
    for rate in RATES[optimizer]:
        run = Training(make(), optimizer, rate, x, y, enough=enough)
        run.go_on(FIRST)
        if run.best >= enough:
            return run.best
        runs.append(run)
    last = max(runs, key=lambda r: r.best)
    last.go_on(MOST - FIRST, patience=PATIENCE)
    return max(r.best for r in runs)


class Training:
    """Training of one network at one rate, which can go on."""

    def __init__(
        self,
        model: nn.Module,
        optimizer: Optimizer,
        rate: float,
        x: Tensor,
        y: Tensor,
        *,
        enough: float = ENOUGH,
    ) -> None:
        self.model, self.x, self.y, self.enough = model, x, y, enough
        wanted = [p for p in model.parameters() if p.requires_grad]
        self.by = optimizer_of(wanted, optimizer, rate)
        self.best, self.alive = 0.0, True
        self.generator = torch.Generator().manual_seed(0)

    def go_on(self, steps: int, *, patience: int | None = None) -> None:
        """So many steps more; stops at a score that is enough, or when nothing more is gained."""
        value_of, since = loss_of(self.y), 0
        for step in range(steps if self.alive else 0):
            rows = torch.randint(len(self.x), (BATCH,), generator=self.generator)
            self.by.zero_grad()
            value = value_of(self.model(self.x[rows]), self.y[rows])
            if not bool(value.isfinite()):
                self.alive = False
                return
            value.backward()
            self.by.step()
            if step % EVERY == EVERY - 1:
                found = score(self.model, self.x, self.y)
                since = 0 if found > self.best + 0.005 else since + EVERY
                self.best = max(self.best, found)
                if self.best >= self.enough or (patience is not None and since >= patience):
                    return
