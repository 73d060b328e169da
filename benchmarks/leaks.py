"""Whether repeated profiles grow the process.

python -m benchmarks.leaks               # a table, for people
python -m benchmarks.leaks | tail -1     # one line of JSON, for scripts

Three small models of different kinds are profiled 200 times after 40 rounds of warm-up; the
resident memory of the process is read before and after.
"""

import gc
import json
from pathlib import Path

import torch
from torch import nn
from torch.nn import functional as F

from benchmarks._timing import environment
from sigmascope import diagnosis, survey
from sigmascope.networks import mlp, resnet

WARM_UP, ROUNDS = 40, 200


def resident() -> float:
    """Megabytes of memory that the process holds (Linux)."""
    gc.collect()
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * 4096 / 1e6


def subjects() -> dict[str, tuple[nn.Module, torch.Tensor]]:
    """A multilayer perceptron with BatchNorm, a ResNet and a recurrent layer."""
    g = torch.Generator().manual_seed(0)
    return {
        "mlp": (
            mlp(inputs=64, outputs=10, depth=4, width=32, norm="batch", generator=g),
            torch.randn(16, 64),
        ),
        "resnet": (resnet(inputs=(1, 8, 8), outputs=10, depth=8, width=4), torch.randn(8, 1, 8, 8)),
        "lstm": (nn.LSTM(5, 6, batch_first=True), torch.randn(8, 7, 5)),
    }


def once(model: nn.Module, x: torch.Tensor) -> None:
    """Profile and diagnose."""
    y = torch.zeros(len(x), dtype=torch.long)
    labelled = {} if isinstance(model, nn.LSTM) else {"targets": y, "loss": F.cross_entropy}
    diagnosis.diagnose(survey.profile(model, x, **labelled))


if __name__ == "__main__":
    grown = {}
    for name, (model, x) in subjects().items():
        for _ in range(WARM_UP):
            once(model, x)
        before = resident()
        for _ in range(ROUNDS):
            once(model, x)
        grown[name] = resident() - before
        print(f"{name:<8} {before:8.1f} MB, {grown[name]:+.2f} MB after {ROUNDS} profiles")
    print(json.dumps({**environment(), "rounds": ROUNDS, "grown MB": grown}))
