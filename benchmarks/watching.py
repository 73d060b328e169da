"""What it costs to watch training: the same steps with and without, side by side.

python -m benchmarks.watching                 # a table, for people
python -m benchmarks.watching | tail -1       # one line of JSON, for scripts
python -m benchmarks.watching MLP --minutes 1 # in a hurry, of the networks named so

SGD with momentum in float32: an 8 x 256 MLP on 64 rows, a four-layer transformer on 8 x 64 tokens,
ResNet-20 on 32 images, on sixteen batches that come again. Every arm has a model and an optimiser
of its own, from the same weights, and makes the same steps. A round is many slices of a few steps;
in a slice the arms come in an order drawn at random, so that a busy neighbour meets all of them.
The cost of an arm is the median over rounds of its time over the mean of two plain arms in the same
round, which themselves show what differs where nothing does. Watches are given clocks that stand
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
from sigmascope.gate import Closing

PLAIN, AGAIN = "plain", "plain, again"
FIRST = 300  # steps, looked at by themselves
RATE, BATCHES = 1e-2, 16
ROUNDS, AGAINS = 4, 3  # each time, times
SLICE, FEW = 0.01, 40  # seconds of a slice, steps of a peer's round
Data = list[tuple[Tensor, Tensor]]
Ratios = dict[str, tuple[float, float]]


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


def arms(
    model: nn.Module, data: Data, makers: Mapping[str, Callable | None], where: Path
) -> dict[str, Arm]:
    """An arm for each maker of watchers; a plain one where there is none."""
    where.mkdir(parents=True, exist_ok=True)
    found = {}
    for name, make in makers.items():
        own = copy.deepcopy(model)
        arm = Arm(own, torch.optim.SGD(own.parameters(), lr=RATE, momentum=0.9))
        if make is not None:
            file = where / f"{len(found)}.run"
            arm.watcher = make(own, arm.optimizer, data[0], arm.clock, file)
        found[name] = arm
    return found


def rounds(
    found: dict[str, Arm], data: Data, count: int, slices: int, steps: int, draw: random.Random
) -> Iterator[Ratios]:
    """Wall and processor time of each arm over the plain ones', of each round."""
    order = [*found.values()]
    for _ in range(count):
        for arm in order:
            arm.wall = arm.cpu = 0.0
        for _ in range(slices):
            draw.shuffle(order)
            for arm in order:
                arm.run(data, steps)
        plain = [found[PLAIN], found[AGAIN]]
        wall, cpu = sum(a.wall for a in plain) / 2, sum(a.cpu for a in plain) / 2
        if slices:
            yield {n: (a.wall / wall, a.cpu / cpu) for n, a in found.items()}


def same(found: dict[str, Arm]) -> dict[str, bool]:
    """Whether an arm has the plain arm's weights, to the last bit."""
    plain = found[PLAIN].model.state_dict()
    return {
        n: all(torch.equal(t, plain[k]) for k, t in a.model.state_dict().items())
        for n, a in found.items()
    }


def medians(ratios: list[Ratios]) -> dict[str, list[float]]:
    """Of what each arm costs beyond the plain one, in per cent: wall, processor, and its spread."""
    table = {}
    for name in ratios[0]:
        wall, cpu = ([100 * (r[name][i] - 1) for r in ratios] for i in (0, 1))
        cpu.sort()
        apart = cpu[-(len(cpu) // 4) - 1] - cpu[len(cpu) // 4]
        table[name] = [statistics.median(wall), statistics.median(cpu), apart]
    return table


def measured(model: nn.Module, x: Tensor, seconds: float, where: Path) -> dict:
    """Rows of one network: watches for long, peers for a while, and the first steps."""
    g = torch.Generator().manual_seed(1)
    rows = [x, *(_like(x, g) for _ in range(BATCHES - 1))]
    data = [(r, torch.randint(10, (len(r),), generator=g)) for r in rows]
    each = a_step(model, data, where)
    steps = max(1, round(SLICE / each))
    of = {"model": model, "data": data, "steps": steps}
    slices = max(4, round(seconds / each / steps / (len(WATCHES) + 2) / AGAINS / (ROUNDS + 0.5)))
    watches, same = _times(WATCHES, where / "watches", AGAINS, (slices // 2, slices), **of)
    peers, alike = _times(PEERS, where / "peers", 1, (1, max(1, round(FEW / steps))), **of)
    both = {name: WATCHES[name] for name in ("watch", "cheap set")}
    few = max(1, round(FIRST / steps))
    first, _ = _times(both, where / "first", 5 if each < 0.02 else 1, (0, few), **of, count=1)
    return {
        "seconds a step": each,
        "steps a round": slices * steps,
        "first steps": medians(first),
        "watches": medians(watches),
        "peers": medians(peers),
        "bits": same | alike,
    }


def a_step(model: nn.Module, data: Data, where: Path) -> float:
    """Seconds of a step."""
    trial = arms(model, data, {PLAIN: None}, where)[PLAIN]
    trial.run(data, 3)
    before = trial.clock()
    trial.run(data, 20)
    return (trial.clock() - before) / 20


def _times(
    makers: Mapping[str, Callable],
    where: Path,
    agains: int,
    slices: tuple[int, int],
    *,
    model: nn.Module,
    data: Data,
    steps: int,
    count: int = ROUNDS,
) -> tuple[list[Ratios], dict[str, bool]]:
    """Ratios of all rounds, and whose weights are the plain arm's at the end, to the last bit.

    Arms are made again some times, in another order: where a model lies in memory moves its times
    by half a per cent.
    """
    ratios, alike = [], {}
    for again in range(agains):
        draw = random.Random(again)
        names = [PLAIN, AGAIN, *makers]
        draw.shuffle(names)
        found = arms(model, data, {n: makers.get(n) for n in names}, where / str(again))
        for _ in rounds(found, data, 1, slices[0], steps, draw):
            pass
        ratios += rounds(found, data, count, slices[1], steps, draw)
        alike = {n: s and alike.get(n, True) for n, s in same(found).items()}
        for arm in found.values():
            if isinstance(arm.watcher, Closing):
                arm.watcher.close()
    return ratios, alike


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
