"""Programs that train get no error, whatever their outputs, losses and optimisers."""

import random

import pytest
import torch
from torch import nn
from torch.nn import functional as F

import sigmascope as ss

N = 192


def inputs(draw):
    g = torch.Generator().manual_seed(draw.randrange(1000))
    x = torch.randn(N, 6, generator=g)
    hidden = torch.tanh(x @ torch.randn(6, 8, generator=g)) @ torch.randn(8, 3, generator=g)
    return x, hidden


class Two(nn.Module):
    """A body and two heads, in whatever holds them."""

    def __init__(self, act, hold):
        super().__init__()
        self.body = nn.Sequential(nn.Linear(6, 32), act(), nn.Linear(32, 32), act())
        self.one, self.two, self.hold = nn.Linear(32, 3), nn.Linear(32, 3), hold

    def forward(self, x):
        h = self.body(x)
        return self.hold(self.one(h), self.two(h))


HOLDERS = {
    "tuple": (lambda a, b: (a, b), lambda o: o),
    "dictionary": (lambda a, b: {"mean": a, "log": b}, lambda o: (o["mean"], o["log"])),
    "joined": (lambda a, b: torch.cat([a, b], -1), lambda o: o.chunk(2, -1)),
    "list": (lambda a, b: [a, b], lambda o: o),
}
LOSSES = {
    "two tasks": lambda a, b, y: F.mse_loss(a, y) + 0.5 * F.cross_entropy(b, y.argmax(-1)),
    "density": lambda a, b, y: (0.5 * (b + (a - y).square() * (-b).exp())).mean(),
    "policy": lambda a, b, y: (
        -(torch.log_softmax(a, -1).gather(1, y.argmax(-1, keepdim=True)).squeeze(1)).mean()
        + 0.1 * F.mse_loss(b, y)
    ),
    "quantiles": lambda a, b, y: (
        torch.maximum(0.1 * (y - a), -0.9 * (y - a)).mean()
        + torch.maximum(0.9 * (y - b), -0.1 * (y - b)).mean()
    ),
    "agreement": lambda a, b, y: (a - y).abs().mean() + (1 - F.cosine_similarity(b, y)).mean(),
    "scaled": lambda a, b, y: 1000 * (F.mse_loss(a, y) + F.mse_loss(b, -y)),
}
OPTIMISERS = {
    "Adam": lambda p: torch.optim.Adam(p, 3e-3),
    "AdamW": lambda p: torch.optim.AdamW(p, 3e-3, weight_decay=0.01),
    "momentum": lambda p: torch.optim.SGD(p, 0.02, momentum=0.9),
    "RMSprop": lambda p: torch.optim.RMSprop(p, 1e-3),
}


def made(seed):
    """One of them, drawn."""
    draw = random.Random(seed)
    torch.manual_seed(seed)
    hold, take = HOLDERS[draw.choice([*HOLDERS])]
    name = [*LOSSES][seed % len(LOSSES)]
    optimiser = draw.choice([*OPTIMISERS]) if name != "scaled" else "Adam"
    model = Two(draw.choice([nn.ReLU, nn.Tanh, nn.GELU, nn.SiLU]), hold)
    return {
        "model": model,
        "data": inputs(draw),
        "loss": lambda o, y: LOSSES[name](*take(o), y),
        "optimizer": OPTIMISERS[optimiser](model.parameters()),
        "batch_size": draw.choice([16, 32, 64]),
        "epochs": 30,
    }


QUICK, ALL = 4, 40
SEEDS = [*range(QUICK), *(pytest.param(s, marks=pytest.mark.slow) for s in range(QUICK, ALL))]


@pytest.mark.parametrize("seed", SEEDS)
def test_no_error(seed):
    found = ss.diagnose(made(seed))
    assert [f for f in found.findings if f.severity == "error"] == []
