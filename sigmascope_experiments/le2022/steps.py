"""Drift of balances against the length of the steps, for five optimizers."""

from collections.abc import Callable, Iterator, Mapping
from itertools import pairwise
from pathlib import Path
from types import MappingProxyType
from typing import Any

import torch

from sigmascope.theory import le2022
from sigmascope_experiments.figures import Claim, Config, Figure, Row, Task, generator_of
from sigmascope_experiments.le2022.nets import logistic, separable, tailed

FRICTION = 0.9
OPTIMIZERS: Mapping[str, Callable[[Any, float], torch.optim.Optimizer]] = MappingProxyType(
    {
        "gradient descent": lambda p, rate: torch.optim.SGD(p, lr=rate),
        "minibatches": lambda p, rate: torch.optim.SGD(p, lr=rate),
        "heavy ball": lambda p, rate: torch.optim.SGD(
            p, lr=rate * (1 - FRICTION), momentum=FRICTION
        ),
        "weight decay": lambda p, rate: torch.optim.SGD(p, lr=rate, weight_decay=0.01),
        "Adam": lambda p, rate: torch.optim.Adam(p, lr=rate / 20),
    }
)


def tasks(config: Config) -> list[Task]:
    """Every optimizer at every step length, over the same time."""
    return [
        {"optimizer": name, "steps": config["steps"] * 2**k, "time": config["time"], "seed": seed}
        for name in OPTIMIZERS
        for k in range(config["halvings"] + 1)
        for seed in range(config["seeds"])
    ]


def row(task: Task, _: Path | None) -> Row:
    """Largest drift of a balance, what its steps explain, and the verdicts."""
    net = tailed("linear", task["seed"])
    with torch.no_grad():
        for p in net.parameters():
            p *= 4  # far enough from zero to move
    x, y = separable("linear", task["seed"])
    rate = task["time"] / task["steps"]
    optimizer = OPTIMIZERS[task["optimizer"]](net.parameters(), rate)
    g = generator_of({"seed": task["seed"]})
    with le2022.conservation.Ledger(net, le2022.conservation.invariants(net, x)).watching(
        optimizer
    ) as ledger:
        for _step in range(task["steps"]):
            rows = slice(None)
            if task["optimizer"] == "minibatches":
                rows = torch.randint(len(x), (8,), generator=g)
            optimizer.zero_grad()
            logistic(net, x[rows], y[rows]).backward()
            optimizer.step()
    drifts = ledger.drifts()
    return {
        "rate": rate,
        "drift": max(d.drift for d in drifts),
        "residual": max(d.residual for d in drifts),
        "verdicts": sorted({str(d.verdict) for d in drifts}),
    }


def plot(rows: list[Row], canvas: Any) -> None:
    """Drift against the length of a step."""
    axes = canvas.add_subplot()
    for name in OPTIMIZERS:
        mine = [r for r in rows if r["task"]["optimizer"] == name]
        rates = sorted({r["rate"] for r in mine})
        axes.plot(rates, [_mean(mine, rate) for rate in rates], marker="o", label=name)
    axes.set(xscale="log", yscale="log", xlabel="step × 1/(1-μ)", ylabel="largest drift")
    axes.legend()


def _mean(rows: list[Row], rate: float) -> float:
    found = [r["drift"] for r in rows if r["rate"] == rate]
    return sum(found) / len(found)


def claims(rows: list[Row], config: Config) -> Iterator[Claim]:
    """Halving the step halves the drift of gradient descent, and does not that of Adam."""
    by = {name: [r for r in rows if r["task"]["optimizer"] == name] for name in OPTIMIZERS}
    rates = sorted({r["rate"] for r in rows}, reverse=True)
    ratios = {
        name: [_mean(mine, a) / _mean(mine, b) for a, b in pairwise(rates)]
        for name, mine in by.items()
    }
    said = lambda name: ", ".join(f"{v:.3f}" for v in ratios[name])
    followed = [r for name, mine in by.items() if name != "Adam" for r in mine]
    yield Claim(
        "the exact identities explain the drift of every optimizer but Adam",
        f"largest residual {max(r['residual'] for r in followed):.1e}",
        max(r["residual"] for r in followed) < 1e-10
        and {v for r in followed for v in r["verdicts"]} == {"holds"},
    )
    yield Claim(
        "Adam is declined",
        ", ".join(sorted({v for r in by["Adam"] for v in r["verdicts"]})),
        all(r["verdicts"] == ["inapplicable"] for r in by["Adam"]),
    )
    yield Claim(
        "the drift of gradient descent halves with the step",
        said("gradient descent"),
        all(abs(v - 2) < 0.1 for v in ratios["gradient descent"][-2:]),
    )
    yield Claim(
        "that of Adam does not",
        said("Adam"),
        all(v < 1.5 for v in ratios["Adam"][-2:]),
    )
    plain, heavy = (_mean(by[n], rates[-1]) for n in ("gradient descent", "heavy ball"))
    expected = (1 + FRICTION) / (1 - FRICTION)
    yield Claim(
        "the heavy ball drifts (1+μ)/(1-μ) times as far as gradient descent at the same η/(1-μ)",
        f"{heavy / plain:.2f} times, of {expected:.1f}",
        abs(heavy / plain / expected - 1) < config["near"],
    )


STEPS = Figure(
    "le2022/steps",
    "Drift of balances against step length: GD, minibatches, heavy ball, weight decay, Adam.",
    1,
    {"steps": 100, "time": 20.0, "halvings": 5, "seeds": 3, "near": 0.1},
    {"steps": 100, "time": 10.0, "halvings": 2, "seeds": 1, "near": 0.3},
    tasks,
    row,
    plot,
    claims,
    "The paper has no experiments, and so no size.",
)
