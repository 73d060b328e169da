"""Small models in training, for tests of what watches them."""

import itertools
from typing import Any

import torch
from torch import nn

from sigmascope.watching import watch
from sigmascope.watching.sinks import Look


class Shelf:
    """A sink that keeps what it is handed."""

    def __init__(self):
        self.looks: list[Look] = []
        self.closed = False

    def write(self, look):
        self.looks.append(look)

    def close(self):
        self.closed = True

    def readings(self):
        return [r for look in self.looks for r in look.readings]

    def estimates(self):
        """The last one of each quantity at each site."""
        return {(r.quantity, r.site): r.estimate for r in self.readings()}

    def of(self, step):
        """What was read at a step."""
        return [r for look in self.looks if look.step == step for r in look.readings]


def stack(*sizes, activation: Any = nn.ReLU):
    """Linear layers with an activation between."""
    parts = [m for a, b in itertools.pairwise(sizes) for m in (nn.Linear(a, b), activation())]
    return nn.Sequential(*parts[:-1])


def trained(model, x, y, optimizer, steps, watch=None):
    """Train on one batch with squared error; the loss of each step."""
    losses = []
    for _ in range(steps):
        optimizer.zero_grad()
        loss = (model(x) - y).square().mean()
        loss.backward()
        optimizer.step()
        losses.append(float(loss.detach()))
        if watch is not None:
            watch.step(loss)
    return losses


def task(seed=0, samples=12, width=5, outputs=3, dtype=torch.float64):
    """A batch with targets."""
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(samples, width, generator=generator, dtype=dtype)
    return x, torch.randn(samples, outputs, generator=generator, dtype=dtype)


def at_leisure(model, *optimizers, **options):
    """A watch whose clock says that steps take long and looks nothing, so that each step is one."""
    clock = Ticks(1e-9)
    optimizers[-1].register_step_pre_hook(lambda *_: clock.wait(100.0))
    return watch(model, *optimizers, budget=1.0, clock=clock, **options)


def watched(model, optimizer, steps=1, **options):
    """What is filed of training on the batch of `task`, where each step is looked at."""
    shelf = Shelf()
    with at_leisure(model, optimizer, sinks=[shelf], **options) as watching:
        trained(model, *task(), optimizer, steps, watching)
    return shelf


def passed(model, *batches, steps=2, **options):
    """What is filed of steps that change nothing, in each of which these batches pass."""
    optimizer, shelf = torch.optim.SGD(model.parameters(), lr=0.0), Shelf()
    with at_leisure(model, optimizer, sinks=[shelf], **options):
        for _ in range(steps):
            for x in batches:
                model(x).sum().backward()
            optimizer.step()
    return shelf


class Ticks:
    """A clock that moves on by itself at each reading, so that budgets are the same everywhere."""

    def __init__(self, tick=1e-3):
        self.now, self.tick = 0.0, tick

    def __call__(self):
        self.now += self.tick
        return self.now

    def wait(self, seconds):
        """Let time pass."""
        self.now += seconds
