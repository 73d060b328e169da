"""What the probability of fitting costs, in forward and backward passes of the same batch.

python -m benchmarks.probing               # a table, for people
python -m benchmarks.probing | tail -1     # one line of JSON, for scripts

A batch of 256 digits; networks of three kinds; one pass is forward, loss and backward.
"""

import json
from collections.abc import Callable

import torch
from torch import nn
from torch.nn import functional as F

from benchmarks._timing import best_of, environment
from sigmascope import diagnosis, sources
from sigmascope.models.networks import mlp, resnet

SAMPLES = 256


def encoder() -> nn.Module:
    """A transformer over the rows of an image."""
    layer = nn.TransformerEncoderLayer(64, 4, 128, batch_first=True, norm_first=True, dropout=0.0)
    body = nn.TransformerEncoder(layer, 4, enable_nested_tensor=False)
    return nn.Sequential(nn.Flatten(1, 2), nn.Linear(8, 64), body, nn.Flatten(), nn.Linear(512, 10))


def main() -> dict[str, float]:
    """Cost of each, in passes."""
    g = torch.Generator().manual_seed(0)
    data = sources.open_data("digits", samples=SAMPLES)
    kinds: dict[str, Callable[[], nn.Module]] = {
        "MLP, depth 8, width 256": lambda: mlp(
            inputs=64, outputs=10, depth=8, width=256, generator=g
        ),
        "ResNet-20": lambda: resnet(inputs=(1, 8, 8), outputs=10, depth=20, width=16, generator=g),
        "transformer, 4 blocks": encoder,
    }
    found = {}
    for name, make in kinds.items():
        model = make()

        def one(model: nn.Module = model) -> None:
            F.cross_entropy(model(data.inputs), data.targets).backward()

        def whole(model: nn.Module = model) -> None:
            diagnosis.trainability.trainability(
                model, data.inputs, targets=data.targets, loss=F.cross_entropy, budget=None
            )

        least = best_of({"pass": one, "probability": whole}, repeats=5)
        found[name] = round(least["probability"] / least["pass"], 1)
        print(f"{name}: {found[name]} passes of {1000 * least['pass']:.1f} ms")
    return found


if __name__ == "__main__":
    print(json.dumps({**main(), **environment()}))
