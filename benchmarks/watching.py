"""What it costs to watch training: the same steps with and without, side by side.

python -m benchmarks.watching                 # a table, for people
python -m benchmarks.watching | tail -1       # one line of JSON, for scripts
python -m benchmarks.watching MLP --minutes 1 # in a hurry, of the networks named so

SGD with momentum in float32: an 8 x 256 MLP on 64 rows, a four-layer transformer on 8 x 64 tokens,
ResNet-20 on 32 images, on sixteen batches that come again. A watch wakes and sleeps in stretches of
one training (`_asleep.py`), from step 20 000 on, where its first looks are behind it. Those are
seen in the column of the first 300 steps, for which, as for peers, every arm has a model and an
optimizer of its own, from the same weights, and makes the same steps. A round is many slices of a
few steps; in a slice the arms come in an order drawn at random, so that a busy neighbour meets all
of them, and the first step of each is not timed, for other arms have used the caches since. The
cost of such an arm is the median over rounds of its time over that of the plain arm in the same
round; in the mean over turns, in which arms change places.

Peers, at every tenth step (`pip install ndtracker==2.0.0 delve==0.1.50`; left out where they are
not installed): ndtracker as its documentation has it, delve's saturation, a hook that takes
`torch.linalg.svdvals` of every weight, and `ss.watch` of one view of a
probe batch and nothing else.
"""

import argparse
import json
import statistics
import tempfile
from pathlib import Path

import torch
from torch import Tensor, nn

from benchmarks._arms import Data, Ratios, slots, turns
from benchmarks._asleep import shares
from benchmarks._timing import environment
from benchmarks._watchers import LATER, PEERS, WATCHES
from benchmarks.balances import networks

FIRST = 300  # steps, looked at by themselves
BATCHES = 16
ROUNDS, QUICK = 2, 0.02  # of a turn; seconds of a step, below which there is time for more
SLICE, FEW = 0.03, 20  # seconds of a slice, steps of a peer's round
STRETCH, FEWEST = 0.25, 8  # seconds of a stretch that a watch is awake or asleep, and its steps


def medians(turns: list[list[Ratios]]) -> dict[str, list[float]]:
    """What each arm costs beyond the plain one, in per cent: wall, processor, and its error.

    Medians over the rounds of a turn, in the mean over turns.
    """
    table = {}
    for name in turns[0][0]:
        wall, cpu = (
            [100 * (statistics.median(r[name][i] for r in turn) - 1) for turn in turns]
            for i in (0, 1)
        )
        over = [100 * (r[name][1] - 1) for turn in turns for r in turn]
        error = statistics.stdev(over) / len(over) ** 0.5 if len(over) > 1 else 0.0
        table[name] = [statistics.mean(wall), statistics.mean(cpu), error]
    return table


def measured(model: nn.Module, x: Tensor, seconds: float, where: Path) -> dict:
    """Rows of one network: watches that have gone on for long, peers, and the first steps."""
    g = torch.Generator().manual_seed(1)
    rows = [x, *(_like(x, g) for _ in range(BATCHES - 1))]
    data = [(r, torch.randint(10, (len(r),), generator=g)) for r in rows]
    each = a_step(model, data)
    steps = max(1, round(SLICE / each))
    of = {"model": model, "data": data, "steps": steps, "where": where}
    roles = len(WATCHES) + 1
    stretch = max(FEWEST, round(STRETCH / each))
    alone = seconds / len(WATCHES)
    watches = {n: shares(m, model, data, alone, stretch, Path(tempfile.mkdtemp(dir=where)))
               for n, m in LATER.items()}  # fmt: skip
    peers, alike = turns(PEERS, 1, (1, max(1, round(FEW / steps))), **of, count=ROUNDS)
    few = max(1, round(FIRST / (steps + 1)))
    first, same = turns(WATCHES, roles if each < QUICK else 1, (0, few), **of, count=1)
    return {
        "seconds a step": each,
        "first steps": medians(first),
        "watches": watches,
        "peers": medians(peers),
        "bits": same | alike,
    }


def a_step(model: nn.Module, data: Data) -> float:
    """Seconds of a step."""
    (trial,) = slots(model, 1)
    trial.run(data, 3)
    before = trial.clock()
    trial.run(data, 20)
    return (trial.clock() - before) / 21


def _like(x: Tensor, g: torch.Generator) -> Tensor:
    if x.is_floating_point():
        return torch.randn(x.shape, generator=g)
    return torch.randint(256, x.shape, generator=g)


def table(name: str, row: dict) -> None:
    """For people."""
    print(f"{name}: {1e3 * row['seconds a step']:.1f} ms a step")
    print(f"  {'':24} {'wall':>8} {'CPU':>8} {'error':>8} {'first':>8}  same weights")
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
        for name, model, x in networks():
            asked = any(part in name for part in given.names) or not given.names
            if asked and "million" not in name:
                rows[name] = measured(model, x, given.minutes * 60, Path(where))
                table(name, rows[name])
    print(json.dumps({"per cent": rows, **environment()}))


if __name__ == "__main__":
    main()
