"""What the rules say of multilayer perceptrons at initialisation, and whether these train.

python -m benchmarks.findings               # a table, for people (minutes)
python -m benchmarks.findings | tail -1     # one line of JSON, for scripts

Width 128 on digits. Training: SGD with momentum 0.9 on 1500 images, batches of 64, 10 epochs, the
best training accuracy of three learning rates. The table in docs/findings.md is this one.
"""

import json

import torch
from torch import nn
from torch.nn import functional as F

from benchmarks._timing import environment
from sigmascope import diagnosis, sources, survey
from sigmascope.models.networks import build

KINDS = ("", "bias=false", "init=he", "norm=batch", "norm=batch-uncentred", "norm=layer")
DEPTHS = (4, 8, 16, 32)
RATES = (0.01, 0.05, 0.2)
EPOCHS, BATCH = 10, 64


def network(query: str) -> nn.Module:
    """The same weights each time."""
    g = torch.Generator().manual_seed(0)
    return build(query, inputs=(1, 8, 8), outputs=10, generator=g)


def accuracy(query: str, data: sources.Data, rate: float) -> float:
    """Training accuracy after plain training at one learning rate."""
    assert isinstance(data.inputs, torch.Tensor)
    assert data.targets is not None
    model, g = network(query), torch.Generator().manual_seed(1)
    optimizer = torch.optim.SGD(model.parameters(), lr=rate, momentum=0.9)
    for _ in range(EPOCHS):
        for rows in torch.randperm(len(data.targets), generator=g).split(BATCH):
            optimizer.zero_grad()
            F.cross_entropy(model(data.inputs[rows]), data.targets[rows]).backward()
            optimizer.step()
    with torch.no_grad():
        return float((model(data.inputs).argmax(1) == data.targets).double().mean())


def row(kind: str, depth: int) -> dict[str, str | float | None]:
    """One network: its last representation, its findings, and how well it trains."""
    query = f"mlp?depth={depth}&width=128" + (f"&{kind}" if kind else "")
    few, many = (sources.open_data("digits", samples=n) for n in (128, 1500))
    profile = survey.profile(network(query), few.inputs, targets=few.targets, loss=F.cross_entropy)
    last = {r.quantity: r.estimate.value for r in profile.readings if r.site == "readout"}
    found = ", ".join(f"{f.name} ({f.severity})" for f in diagnosis.judge(profile))
    return {
        "network": kind or "default",
        "depth": depth,
        "participation ratio": last["participation ratio"],
        "centred": last.get("centred participation ratio"),
        "variation": last["relative variation"],
        "findings": found or "none",
        "trains to": max(accuracy(query, many, rate) for rate in RATES),
    }


if __name__ == "__main__":
    rows = []
    for kind in KINDS:
        for depth in DEPTHS:
            rows.append(row(kind, depth))
            cells = (f"{c:.4g}" if isinstance(c, float) else c or "–" for c in rows[-1].values())
            print(f"| {' | '.join(map(str, cells))} |")
    print(json.dumps({**environment(), "rows": rows}, allow_nan=False))
