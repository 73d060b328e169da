"""Programs that train get no error, whatever their outputs, losses and optimizers."""

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
OPTIMIZERS = {
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
    optimizer = draw.choice([*OPTIMIZERS]) if name != "scaled" else "Adam"
    model = Two(draw.choice([nn.ReLU, nn.Tanh, nn.GELU, nn.SiLU]), hold)
    return {
        "model": model,
        "data": inputs(draw),
        "loss": lambda o, y: LOSSES[name](*take(o), y),
        "optimizer": OPTIMIZERS[optimizer](model.parameters()),
        "batch_size": draw.choice([16, 32, 64]),
        "epochs": 20,
    }


QUICK, ALL = 2, 40
SEEDS = [*range(QUICK), *(pytest.param(s, marks=pytest.mark.slow) for s in range(QUICK, ALL))]


@pytest.mark.parametrize("seed", SEEDS)
def test_no_error(seed):
    found = ss.diagnose(made(seed))
    assert [f for f in found.findings if f.severity == "error"] == []


class Inside(nn.Module):
    """A network that makes what its output is compared with, in whatever holds both."""

    def __init__(self, make, hold):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(6, 32), nn.ReLU(), nn.Linear(32, 6))
        self.other = nn.Linear(6, 6).requires_grad_(False)
        self.log = nn.Parameter(torch.zeros(()))
        self.make, self.hold = make, hold

    def forward(self, x):
        read, made = self.make(self, x)
        return self.hold(self.net(read), made)


def masked(_, x):
    mask = torch.rand_like(x) < 0.3
    return x.masked_fill(mask, 0.0), mask


def numbered(_, x):
    turns = torch.randint(0, 6, (len(x),))
    return torch.stack([row.roll(int(k)) for row, k in zip(x, turns, strict=True)]), turns


def noised(_, x):
    noise = torch.randn_like(x)
    return x + noise, noise


def taught(self, x):
    return x, self.other(x).detach()


def left_out(_, x):
    labels = (x[:, 0] > 0).long()
    return x, torch.where(torch.rand(len(x)) < 0.3, -100, labels)


MADE = {
    "mask": (masked, lambda o, m, y: ((o - y).square() * m).sum() / m.sum().clamp(min=1)),
    "labels": (numbered, lambda o, k, y: F.cross_entropy(o, k)),
    "labels of some": (left_out, lambda o, k, y: F.cross_entropy(o, k)),
    "noise": (noised, lambda o, e, y: F.mse_loss(o, e)),
    "noise, the other way": (noised, lambda o, e, y: (o + 2 * e).square().sum(-1).mean()),
    "teacher": (taught, lambda o, t, y: F.mse_loss(o, t)),
    "scale": (lambda self, x: (x, self.log), lambda o, v, y: F.mse_loss(o, y) * (-v).exp() + v),
}
FAILS = {"failing-training", "no-progress", "stuck", "rate-too-low", "rate-too-high", "few-steps"}


def held():
    """Every loss in one holder, each holder in turn; in all of them by night."""
    holders = ("tuple", "dictionary", "list")
    for i, made in enumerate(MADE):
        for j, holder in enumerate(holders):
            marks = [pytest.mark.slow] if (i - j) % len(holders) else []
            yield pytest.param(made, holder, marks=marks)


@pytest.mark.parametrize(("made", "holder"), [*held()])
def test_what_a_model_makes_for_its_loss_is_of_the_same_samples(made, holder):
    make, loss = MADE[made]
    hold, take = HOLDERS[holder]
    torch.manual_seed(0)
    g = torch.Generator().manual_seed(1)
    x = torch.randn(N, 2, generator=g) @ torch.randn(2, 6, generator=g)
    x = x + torch.tensor([2.0, 1.0, 0.0, 0.0, -1.0, -2.0])  # by which turns can be told
    model = Inside(make, hold)
    found = ss.diagnose(
        model,
        (x, x @ torch.randn(6, 6, generator=g) / 2),
        loss=lambda o, y: loss(*take(o), y),
        optimizer=torch.optim.Adam([p for p in model.parameters() if p.requires_grad], 1e-2),
        batch_size=32,
        epochs=25,
    )
    assert [f.name for f in found.findings if f.severity == "error"] == []
    assert FAILS.isdisjoint(f.name for f in found.findings if f.severity == "warning")
    assert not any((k.site, k.what) == ("(training)", "training") for k in found.profile.skipped)
    assert found.profile.series("least loss")[0].estimate.value > -1e-3  # none is less than zero
    assert found.profile.series("loss left")[0].estimate.value < 0.9
