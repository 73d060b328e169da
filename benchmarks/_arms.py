"""Arms that make the same steps side by side, each with a model of its own, watched or not."""

import copy
import random
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from benchmarks._watchers import Watcher
from sigmascope.core.guard import Closing

PLAIN = "plain"
RATE = 1e-2
Data = list[tuple[Tensor, Tensor]]
Ratios = dict[str, tuple[float, float]]


@dataclass
class Arm:
    """One model in training.

    Attributes:
        model: Of its own.
        optimizer: Its optimizer.
        watcher: Told the loss of each step; None of a plain arm.
        made: Steps so far.
        wall: Seconds of the last slices.
        cpu: Seconds of the processor in them.
    """

    model: nn.Module
    optimizer: torch.optim.Optimizer
    watcher: Watcher | None = None
    made: int = 0
    wall: float = 0.0
    cpu: float = 0.0
    began: float = field(default=0.0, repr=False)
    total: float = field(default=0.0, repr=False)
    running: bool = field(default=False, repr=False)

    def clock(self) -> float:
        """Seconds that this arm has run."""
        return self.total + (time.perf_counter() - self.began if self.running else 0.0)

    def run(self, data: Data, steps: int) -> None:
        """Make a step that fills the caches, which others have used since, and some more."""
        self.made_some(data, 1)
        self.timed(data, steps)

    def timed(self, data: Data, steps: int) -> None:
        """Make some steps, by the clocks."""
        wall, cpu = time.perf_counter(), time.process_time()
        self.made_some(data, steps)
        self.wall += time.perf_counter() - wall
        self.cpu += time.process_time() - cpu

    def made_some(self, data: Data, steps: int) -> None:
        """Make some steps."""
        told = self.watcher.step if self.watcher else None
        self.running, self.began = True, time.perf_counter()
        for _ in range(steps):
            x, y = data[self.made % len(data)]
            self.made += 1
            self.optimizer.zero_grad()
            loss = F.cross_entropy(self.model(x), y)
            loss.backward()
            self.optimizer.step()
            if told:
                told(loss)
        self.running = False
        self.total += time.perf_counter() - self.began


def slots(model: nn.Module, count: int) -> list[Arm]:
    """So many arms, none of them watched yet."""
    copies = [copy.deepcopy(model) for _ in range(count)]
    return [Arm(m, torch.optim.SGD(m.parameters(), lr=RATE, momentum=0.9)) for m in copies]


def anew(arm: Arm, model: nn.Module) -> None:
    """As before the first step, in the same memory."""
    if isinstance(arm.watcher, Closing):
        arm.watcher.close()
    arm.watcher, arm.made = None, 0
    arm.model.load_state_dict(model.state_dict())
    for state in arm.optimizer.state.values():
        state["momentum_buffer"].zero_()


def rounds(
    found: dict[str, Arm], data: Data, count: int, slices: int, steps: int, draw: random.Random
) -> Iterator[Ratios]:
    """Wall and processor time of each arm over the plain one', of each round."""
    order = [*found.values()]
    for _ in range(count):
        for arm in order:
            arm.wall = arm.cpu = 0.0
        for _ in range(slices):
            draw.shuffle(order)
            for arm in order:
                arm.run(data, steps)
        plain = found[PLAIN]
        if slices:
            yield {n: (a.wall / plain.wall, a.cpu / plain.cpu) for n, a in found.items()}


def same(found: dict[str, Arm]) -> dict[str, bool]:
    """Whether an arm has the plain arm's weights, to the last bit."""
    plain = found[PLAIN].model.state_dict()
    return {
        n: all(torch.equal(t, plain[k]) for k, t in a.model.state_dict().items())
        for n, a in found.items()
    }


def turns(
    makers: Mapping[str, Callable],
    count_of_turns: int,
    slices: tuple[int, int],
    *,
    model: nn.Module,
    data: Data,
    steps: int,
    where: Path,
    count: int,
) -> tuple[list[list[Ratios]], dict[str, bool]]:
    """Ratios of all rounds, and whose weights are the plain arm's at the end, to the last bit.

    Where a model lies in memory moves its times by a per cent, so that in as many turns as there
    are arms each is once in every place.
    """
    names = [PLAIN, *makers]
    places, ratios, alike = slots(model, len(names)), [], dict.fromkeys(names, True)
    for turn in range(count_of_turns):
        found = dict(zip(names[turn:] + names[:turn], places, strict=True))
        for name, arm in found.items():
            anew(arm, model)
            if name in makers:
                file = Path(tempfile.mkdtemp(dir=where)) / "a.run"
                arm.watcher = makers[name](arm.model, arm.optimizer, data[0], arm.clock, file)
        draw = random.Random(turn)
        list(rounds(found, data, 1, slices[0], steps, draw))
        ratios.append([*rounds(found, data, count, slices[1], steps, draw)])
        alike = {n: s and alike[n] for n, s in same(found).items()}
    for arm in places:
        anew(arm, model)
    return ratios, alike
