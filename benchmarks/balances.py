"""What it costs to know the balances of a network of 20 million parameters.

python -m benchmarks.balances               # a table, for people
python -m benchmarks.balances | tail -1     # one line of JSON, for scripts

A ResNet-20 of width 136 (19.3 million parameters) on 32 images of 32 x 32, trained by heavy-ball
SGD in float32: one step of training alone, and the same step with a ledger that follows all
balances; the values of all balances; and finding them on 4 images.
"""

import json

import torch
from torch.nn import functional as F

from benchmarks._timing import best_of, environment
from sigmascope.networks import resnet
from sigmascope.theory import le2022

BATCH = 32


def main() -> dict[str, float]:
    """Seconds of each part."""
    g = torch.Generator().manual_seed(0)
    model = resnet(inputs=(3, 32, 32), outputs=10, depth=20, width=136, generator=g)
    x = torch.randn(BATCH, 3, 32, 32, generator=g)
    y = torch.randint(10, (BATCH,), generator=g)
    plain, followed = (torch.optim.SGD(model.parameters(), lr=1e-3, momentum=0.9) for _ in range(2))
    found = le2022.conservation.invariants(model, x[:4])
    parameters = dict(model.named_parameters())
    ledger = le2022.conservation.Ledger(model, found).watching(followed)

    def step(optimiser: torch.optim.Optimizer) -> None:
        optimiser.zero_grad()
        F.cross_entropy(model(x), y).backward()
        optimiser.step()

    return best_of(
        {
            "training step": lambda: step(plain),
            "step with ledger": lambda: step(followed),
            "ledger alone": lambda: ledger._stepped(followed, (), {}),
            "values": lambda: [i.value(parameters) for i in found],
            "finding": lambda: le2022.conservation.invariants(model, x[:4]),
        },
        repeats=3,
    )


if __name__ == "__main__":
    seconds = main()
    whole = seconds["training step"]
    print("part                seconds   of a training step")
    for name, spent in seconds.items():
        print(f"{name:18} {spent:8.3f}   {spent / whole:8.4f}")
    print(json.dumps({"seconds": seconds, **environment()}))
