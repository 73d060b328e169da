"""What it costs to follow the balances of a network while it trains.

python -m benchmarks.balances               # a table, for people
python -m benchmarks.balances | tail -1     # one line of JSON, for scripts

Heavy-ball SGD in float32: an 8 x 256 MLP on 64 rows, a four-layer transformer on 8 x 64 tokens,
ResNet-20 on 32 images, and a ResNet-20 of 19.3 million parameters. One step of training alone; the
ledger's part of a step, for units by themselves as `ss.watch` follows them, and with blocks of
units; the values of all balances; and finding them on 4 samples.
"""

import json
from collections.abc import Iterator

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from benchmarks._timing import best_of, environment
from sigmascope.models.networks import mlp, resnet
from sigmascope.theory import le2022


class Transformer(nn.Module):
    """Four encoder layers of width 128 on tokens, mean-pooled."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(256, 128)
        layer = nn.TransformerEncoderLayer(128, 4, 512, dropout=0.0, batch_first=True)
        self.layers = nn.TransformerEncoder(layer, 4, enable_nested_tensor=False)
        self.readout = nn.Linear(128, 10)

    def forward(self, tokens: Tensor) -> Tensor:
        """Logits of each row."""
        return self.readout(self.layers(self.embedding(tokens)).mean(1))


def networks() -> Iterator[tuple[str, nn.Module, Tensor]]:
    """Four models with a batch each."""
    g = torch.Generator().manual_seed(0)
    images = torch.randn(32, 3, 32, 32, generator=g)
    yield (
        "8 x 256 MLP",
        mlp(inputs=64, outputs=10, depth=8, width=256, generator=g),
        torch.randn(64, 64, generator=g),
    )
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        yield "transformer", Transformer(), torch.randint(256, (8, 64), generator=g)
    shape = {"inputs": (3, 32, 32), "outputs": 10, "depth": 20, "generator": g}
    yield "ResNet-20", resnet(**shape, width=16), images
    yield "ResNet-20, 19 million", resnet(**shape, width=136), images


def measured(model: nn.Module, x: Tensor) -> dict[str, float]:
    """Seconds of each part."""
    y = torch.arange(len(x)) % 10
    found = le2022.conservation.invariants(model, x[:4])
    parameters = dict(model.named_parameters())
    optimizers = [torch.optim.SGD(model.parameters(), lr=1e-4, momentum=0.9) for _ in range(3)]
    plain, *followed = optimizers
    ledgers = [
        le2022.conservation.Ledger(model, found, blocks=blocks).watching(optimizer)
        for blocks, optimizer in zip((False, True), followed, strict=True)
    ]

    def step(optimizer: torch.optim.Optimizer) -> None:
        optimizer.zero_grad()
        F.cross_entropy(model(x), y).backward()
        optimizer.step()

    for optimizer in followed:
        step(optimizer)
    return best_of(
        {
            "training step": lambda: step(plain),
            "ledger of units": lambda: ledgers[0]._stepped(followed[0], (), {}),
            "ledger of blocks": lambda: ledgers[1]._stepped(followed[1], (), {}),
            "values": lambda: [i.value(parameters) for i in found],
            "finding": lambda: le2022.conservation.invariants(model, x[:4]),
        },
        repeats=9,
    )


if __name__ == "__main__":
    rows = {}
    for name, model, x in networks():
        rows[name] = measured(model, x)
        print(f"{name}: {1e3 * rows[name]['training step']:.1f} ms a training step, of which")
        for part, seconds in rows[name].items():
            print(f"  {part:18} {seconds / rows[name]['training step']:8.4f}", flush=True)
    print(json.dumps({"seconds": rows, **environment()}))
