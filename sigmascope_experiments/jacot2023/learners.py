"""Networks that learned to predict the costs of gradient descent."""

from dataclasses import replace
from functools import lru_cache
from typing import Any, final

import torch
from torch import nn

from sigmascope import theory
from sigmascope.theory import jacot2023
from sigmascope_experiments.figures import Task
from sigmascope_experiments.jacot2023.tasks import stack
from sigmascope_experiments.training import CPU

SPREAD = 0.3  # of the targets
TESTED = 1000  # samples beside those of training


@final
class Learned:
    """A network, trained on a device, with its task.

    Attributes:
        task: Starts and costs; those of training first.
        model: The network.
        train: Mean squared error.
        test: The same on other starts.
    """

    def __init__(self, settings: Task, device: torch.device = CPU) -> None:
        seed, count = settings["seed"], settings["samples"]
        g = torch.Generator().manual_seed(seed)
        task = jacot2023.constructions.symmetry_task(
            settings["dimension"], samples=count + TESTED, generator=g
        )
        y = task.costs - task.costs[:count].mean(0)
        x, y = task.starts.float(), (SPREAD * y / y[:count].std()).float()
        self.task = task
        self.model: nn.Module = stack(
            settings["depth"],
            torch.Generator().manual_seed(100 + seed),
            inputs=settings["dimension"],
            width=settings["width"],
        ).to(device)
        theory.bottleneck.settle(
            self.model,
            x[:count].to(device),
            y[:count].to(device),
            ridge=2e-4,
            steps=settings["steps"],
            batch_size=256,
            generator=g,
        )
        self.model = self.model.cpu()  # what is read of it is small
        with torch.no_grad():
            error = (self.model(x) - y).square().mean(1) / SPREAD**2
        self.train, self.test = float(error[:count].mean()), float(error[count:].mean())
        self.held_out = replace(task, starts=task.starts[count:], costs=task.costs[count:])


@lru_cache(maxsize=4)
def _learned(settings: tuple[tuple[str, Any], ...], device: torch.device) -> Learned:
    return Learned(dict(settings), device)


def learned(task: Task, device: torch.device) -> Learned:
    """Trained once for all figures of one process."""
    return _learned(tuple(sorted(task.items())), device)
