"""Whether repeated profiles grow the process.

python -m benchmarks.leaks               # a table, for people
python -m benchmarks.leaks | tail -1     # one line of JSON, for scripts

Three small models of different kinds are profiled 200 times after 40 rounds of warm-up; the
resident memory of the process is read before and after. With `--zoo`, every model of
tests/models_zoo.py (most of an hour).
"""

import gc
import json
import sys
from pathlib import Path

import torch
from torch import nn
from torch.nn import functional as F

from benchmarks._timing import environment
from sigmascope import diagnosis, survey
from sigmascope.models.networks import MLP, ResNet, mlp, resnet
from sigmascope.models.samples import Batch

WARM_UP, ROUNDS = 40, 200


def resident() -> float:
    """Megabytes of memory that the process holds (Linux)."""
    gc.collect()
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * 4096 / 1e6


def subjects() -> dict[str, tuple[nn.Module, Batch]]:
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


def zoo() -> dict[str, tuple[nn.Module, Batch]]:
    """The models that the tests share."""
    from tests.models_zoo import MODELS

    return {name: build() for name, build in MODELS.items()}


def once(model: nn.Module, batch: Batch) -> None:
    """Profile and diagnose, with the loss where the model is a plain classifier."""
    labelled = {}
    if isinstance(batch, torch.Tensor) and isinstance(model, MLP | ResNet):
        labelled = {"targets": torch.zeros(len(batch), dtype=torch.long), "loss": F.cross_entropy}
    diagnosis.judge(survey.profile(model, batch, **labelled))


if __name__ == "__main__":
    grown = {}
    for name, (model, batch) in (zoo() if "--zoo" in sys.argv else subjects()).items():
        for _ in range(WARM_UP):
            once(model, batch)
        before = resident()
        for _ in range(ROUNDS):
            once(model, batch)
        grown[name] = resident() - before
        print(f"{name:<26} {before:8.1f} MB, {grown[name]:+.2f} MB after {ROUNDS} profiles")
    print(json.dumps({**environment(), "rounds": ROUNDS, "grown MB": grown}))
