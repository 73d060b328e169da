"""What it costs to watch training: the same steps with and without, side by side.

python -m benchmarks.watching                 # a table, for people
python -m benchmarks.watching | tail -1       # one line of JSON, for scripts
python -m benchmarks.watching MLP --minutes 1 # in a hurry, of the networks named so

SGD with momentum in float32: an 8 x 256 MLP on 64 rows, a four-layer transformer on 8 x 64 tokens,
ResNet-20 on 32 images, on sixteen batches that come again. Every arm has a model and an optimiser
of its own, from the same weights, and makes the same steps. A round is many slices of a few steps;
in a slice the arms come in an order drawn at random, so that a busy neighbour meets all of them.
The cost of an arm is the median over rounds of its time over that of the plain arm in the same
round. A second plain arm shows what differs where nothing does. Watches are given clocks that stand
still while other arms run.

Peers, at every tenth step (`pip install ndtracker==2.0.0 delve==0.1.50`; left out where they are
not installed): ndtracker as its documentation has it, delve's saturation, a hook that takes
`torch.linalg.svdvals` of every weight, and `ss.Monitor`.
"""

import argparse
import copy
import json
import random
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from benchmarks._timing import environment
from benchmarks._watchers import PEERS, WATCHES, Watcher
from benchmarks.balances import networks

PLAIN, AGAIN = "plain", "plain, again"
FIRST = 300  # steps, looked at by themselves
RATE, BATCHES = 1e-2, 16
ROUNDS, SLICE, FEW = 12, 0.05, 40  # of watches, seconds of a slice, steps of a peer's round
Data = list[tuple[Tensor, Tensor]]


@dataclass
class Arm:
    """One model in training.

    Attributes:
        model: Of its own.
        optimizer: Its optimiser.
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
        """Make some steps."""
        told = self.watcher.step if self.watcher else None
        self.running, self.began, cpu = True, time.perf_counter(), time.process_time()
        for _ in range(steps):
            x, y = data[self.made % len(data)]
            self.made += 1
            self.optimizer.zero_grad()
            loss = F.cross_entropy(self.model(x), y)
            loss.backward()
            self.optimizer.step()
            if told:
                told(loss)
        self.cpu += time.process_time() - cpu
        self.running, wall = False, time.perf_counter() - self.began
        self.wall += wall
        self.total += wall


def arms(model: nn.Module, data: Data, makers: Mapping[str, Callable], where: Path) -> dict:
    """A plain arm, another, and one for each maker of watchers."""
    where.mkdir(parents=True, exist_ok=True)
    found = {}
    for name in (PLAIN, AGAIN, *makers):
        own = copy.deepcopy(model)
        arm = Arm(own, torch.optim.SGD(own.parameters(), lr=RATE, momentum=0.9))
        if name in makers:
            file = where / f"{len(found)}.run"
            arm.watcher = makers[name](own, arm.optimizer, data[0], arm.clock, file)
        found[name] = arm
    return found


def rounds(
    found: dict[str, Arm], data: Data, count: int, slices: int, steps: int, seed: int = 0
) -> Iterator[dict[str, tuple[float, float]]]:
    """Wall and processor time of each arm over the plain one's, of each round."""
    order, draw = [*found.values()], random.Random(seed)
    for _ in range(count):
        for arm in order:
            arm.wall = arm.cpu = 0.0
        for _ in range(slices):
            draw.shuffle(order)
            for arm in order:
                arm.run(data, steps)
        plain = found[PLAIN]
        yield {n: (a.wall / plain.wall, a.cpu / plain.cpu) for n, a in found.items()}


def same(found: dict[str, Arm]) -> dict[str, bool]:
    """Whether an arm has the plain arm's weights, to the last bit."""
    plain = found[PLAIN].model.state_dict()
    return {
        n: all(torch.equal(t, plain[k]) for k, t in a.model.state_dict().items())
        for n, a in found.items()
    }


def medians(ratios: list[dict[str, tuple[float, float]]]) -> dict[str, list[float]]:
    """Of what each arm costs beyond the plain one, in per cent: wall, processor, and its spread."""
    table = {}
    for name in ratios[0]:
        wall, cpu = ([100 * (r[name][i] - 1) for r in ratios] for i in (0, 1))
        cpu.sort()
        apart = cpu[-(len(cpu) // 4) - 1] - cpu[len(cpu) // 4]
        table[name] = [statistics.median(wall), statistics.median(cpu), apart]
    return table


def measured(model: nn.Module, x: Tensor, seconds: float, where: Path) -> dict[str, dict]:
    """Rows of one network: watches for long, peers for a while, and the first steps."""
    g = torch.Generator().manual_seed(1)
    rows = [x, *(_like(x, g) for _ in range(BATCHES - 1))]
    data = [(r, torch.randint(10, (len(r),), generator=g)) for r in rows]
    trial = arms(model, data, {}, where)[PLAIN]
    trial.run(data, 3)
    trial.run(data, steps := 20)
    each = trial.clock() / (steps + 3)
    steps = max(1, round(SLICE / each))
    both = {name: WATCHES[name] for name in ("watch", "cheap set")}
    first = [
        next(rounds(arms(model, data, both, where / f"first {i}"), data, 1, FIRST // 5, 5, i))
        for i in range(5 if each < 0.02 else 1)
    ]
    found = arms(model, data, WATCHES, where)
    slices = max(4, round(seconds / (ROUNDS + 1) / len(found) / (steps * each)))
    last = [*rounds(found, data, ROUNDS + 1, slices, steps)][1:]
    peers = arms(model, data, PEERS, where / "peers")
    beside = [*rounds(peers, data, 4, max(1, round(FEW / steps)), steps)][1:]
    return {
        "seconds a step": each,
        "steps a round": slices * steps,
        "first steps": medians(first),
        "watches": medians(last),
        "peers": medians(beside),
        "bits": same(found) | same(peers),
    }


def _like(x: Tensor, g: torch.Generator) -> Tensor:
    if x.is_floating_point():
        return torch.randn(x.shape, generator=g)
    return torch.randint(256, x.shape, generator=g)


def table(name: str, row: dict) -> None:
    """For people."""
    print(f"{name}: {1e3 * row['seconds a step']:.1f} ms a step, {row['steps a round']} a round")
    print(f"  {'':24} {'wall':>8} {'CPU':>8} {'spread':>8} {'first':>8}  same weights")
    for arm, (wall, cpu, apart) in (row["watches"] | row["peers"]).items():
        first = row["first steps"].get(arm)
        at_first = f"{first[1]:7.2f}%" if first else " " * 8
        print(f"  {arm:24} {wall:7.2f}% {cpu:7.2f}% {apart:7.2f}% {at_first}  {row['bits'][arm]}",
              flush=True)  # fmt: skip


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser()
    parser.add_argument("names", nargs="*", help="parts of the networks' names")
    parser.add_argument("--minutes", type=float, default=6.0, help="for the watches of a network")
    given = parser.parse_args()
    torch.set_num_threads(1)
    rows = {}
    with tempfile.TemporaryDirectory() as where:
        for i, (name, model, x) in enumerate(networks()):
            asked = any(part in name for part in given.names) or not given.names
            if asked and "million" not in name:
                rows[name] = measured(model, x, given.minutes * 60, Path(where) / str(i))
                table(name, rows[name])
    print(json.dumps({"per cent": rows, **environment()}))


if __name__ == "__main__":
    main()
