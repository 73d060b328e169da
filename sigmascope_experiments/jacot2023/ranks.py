"""How often the inner dimension of a task is told rightly from one trained network."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch

from sigmascope import theory
from sigmascope_experiments.figures import Claim, Config, Figure, Row, Task, only_if
from sigmascope_experiments.jacot2023.tasks import bottleneck_task, norm_claim, norm_excess, stack

SIDE, NOISES = 6, (0.0, 0.1, 0.2)
PROMISED = 0.95  # coverage of the intervals


def tasks(config: Config) -> list[Task]:
    """Draws of every dimension, with other seeds than those that the rule was set on."""
    return [
        {
            "rank": rank,
            "seed": config["seed"] + 100 * rank + draw,
            "noise": NOISES[draw % len(NOISES)],
            "convolution": draw % 5 >= 3,
            "depth": config["depth"],
            "steps": config["steps"],
            "samples": config["samples"],
        }
        for draw in range(config["draws"])
        for rank in config["ranks"]
    ]


def row(task: Task, _: Path | None) -> Row:
    """One task with shallow networks of 50 to 100 units, one network of as many, and its rank."""
    g = torch.Generator().manual_seed(task["seed"])
    hidden, width = (int(v) for v in torch.randint(50, 101, (2,), generator=g))
    sizes = {"samples": task["samples"], "noise": task["noise"], "hidden": hidden}
    x, y = bottleneck_task(task["seed"], rank=task["rank"], inputs=SIDE**2, **sizes)
    side = SIDE if task["convolution"] else None
    model = stack(task["depth"], g, inputs=SIDE**2, width=width, side=side)
    theory.bottleneck.settle(model, x, y, ridge=5e-4, steps=task["steps"])
    found = theory.bottleneck.bottleneck(model, x[:128], targets=y[:128])
    weights = [e.estimate.value for e in found.evidence if e.name == "relative weight rank"]
    narrowest = [e.estimate.value for e in found.evidence if e.name == "written rank"]
    plain = None if task["convolution"] else norm_excess(model, x)
    return {
        "excess": plain,
        "rank": [found.rank.value, found.rank.low, found.rank.high],
        "kind": found.kind,
        "narrowest weight": min(weights),
        "narrowest representation": min(narrowest),
        "says": found.says,
    }


def plot(rows: list[Row], canvas: Any) -> None:
    """The rank told, and that of the narrowest weight, against the true one."""
    ax = canvas.subplots()
    for i, r in enumerate(rows):
        at = r["task"]["rank"] + 0.3 * (i / len(rows) - 0.5)
        ax.plot(at, r["rank"][0], "o", color="C0")
        ax.plot(at, r["narrowest weight"], "x", color="C1", alpha=0.5)
    ax.set(xlabel="dimension of the task", ylabel="rank told (o), of the narrowest weight (x)")


def claims(rows: list[Row], config: Config) -> Iterator[Claim]:
    """Mostly exact, hardly ever off by more than one; intervals hold what they promise."""
    yield norm_claim([r for r in rows if r["excess"] is not None])
    says = (
        "the rank is exact in at least 85 % of the tasks",
        f"intervals hold the true dimension in {PROMISED:.0%} of the tasks",
        "the rank of the narrowest weight alone is right less often",
    )
    why = f"{config['steps']} steps of training are too few, 5000 are needed"
    yield from only_if(config["steps"] >= 5000, why, says, _trained_claims(rows))


def _trained_claims(rows: list[Row]) -> Iterator[Claim]:
    off = [abs(r["rank"][0] - r["task"]["rank"]) for r in rows]
    n = len(rows)
    exact, near = sum(o == 0 for o in off), sum(o <= 1 for o in off)
    yield Claim(
        "the rank is exact in at least 85 % of the tasks, and within one in 97 %",
        f"{exact} and {near} of {n}",
        exact >= 0.85 * n and near >= 0.97 * n,
    )
    held = sum(r["rank"][1] <= r["task"]["rank"] <= r["rank"][2] for r in rows)
    single = sum(r["rank"][1] == r["rank"][2] for r in rows)
    yield Claim(
        f"intervals hold the true dimension in {PROMISED:.0%} of the tasks",
        f"{held} of {n}; {single} of them are one number",
        held >= PROMISED * n,
    )
    plain = sum(r["narrowest weight"] == r["task"]["rank"] for r in rows)
    yield Claim(
        "the rank of the narrowest weight alone is right less often",
        f"{plain} of {n}",
        plain < exact,
    )


RANKS = Figure(
    "jacot2023/ranks",
    "Inner dimension told from one trained network, on 60 tasks of known dimension 1 to 6.",
    25,
    {
        "ranks": [1, 2, 3, 4, 5, 6],
        "draws": 10,
        "seed": 50_000,
        "depth": 8,
        "steps": 6000,
        "samples": 500,
    },
    {"ranks": [1, 2], "draws": 1, "seed": 50_000, "depth": 3, "steps": 40, "samples": 140},
    tasks,
    row,
    plot,
    claims,
    "No figure of the paper: its data, of six dimensions.",
)
