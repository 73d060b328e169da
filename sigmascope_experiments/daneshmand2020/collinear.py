"""Figure 3b: batch normalisation opens up a nearly collinear batch."""

import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch

from sigmascope.theory.random_chains import BatchNormChain
from sigmascope_experiments.figures import Claim, Config, Figure, Row, Task

WIDTH, TOP, NOISE = 32, 10, 1e-3


def tasks(config: Config) -> list[Task]:
    """A row for each strength and seed."""
    return [
        {"gamma": gamma, "seed": seed, "layers": config["layers"][str(gamma)]}
        for gamma in config["gammas"]
        for seed in range(config["seeds"])
    ]


def row(task: Task, _: Path | None) -> Row:
    """Top singular values of `H/√N` at some layers, from a batch of one direction and noise."""
    g = torch.Generator().manual_seed(3 + task["seed"])
    u = torch.randn(1, WIDTH, generator=g, dtype=torch.float64)
    noise = torch.randn(WIDTH, WIDTH, generator=g, dtype=torch.float64)
    gamma = math.inf if task["gamma"] == "inf" else task["gamma"]
    chain = BatchNormChain(WIDTH, gamma, inputs=u + NOISE * noise, generator=g)
    found = {}
    for layer in range(task["layers"][-1] + 1):
        if layer in task["layers"]:
            sigma = chain.singular_values()[0].tolist() + [0.0] * TOP
            found[str(layer)] = sigma[:TOP]
        chain.step()
    return {"sigma": found}


def plot(rows: list[Row], canvas: Any) -> None:
    """Top singular values against the layer, one panel for each strength."""
    gammas = list(dict.fromkeys(r["task"]["gamma"] for r in rows))
    for place, gamma in enumerate(gammas, start=1):
        axes = canvas.add_subplot(1, len(gammas), place)
        found = next(r for r in rows if r["task"]["gamma"] == gamma)["sigma"]
        layers = [int(layer) for layer in found]
        for i in range(TOP):
            axes.plot([max(layer, 0.5) for layer in layers], [s[i] for s in found.values()])
        axes.set(xscale="log", xlabel="layer", ylabel="singular values", title=f"gamma {gamma}")


def claims(rows: list[Row], _: Config) -> Iterator[Claim]:
    """The first value falls from the root of the width, the small ones rise."""
    for gamma in dict.fromkeys(r["task"]["gamma"] for r in rows):
        found = [list(r["sigma"].values()) for r in rows if r["task"]["gamma"] == gamma]
        shares = [values[0][0] ** 2 / WIDTH for values in found]  # all squares sum to the width
        last = sum(values[-1][0] for values in found) / len(found)
        sixth = sum(values[-1][5] for values in found) / len(found)
        yield Claim(
            f"the batch starts with nearly all of its energy in one direction (gamma {gamma})",
            f"{min(shares):.3f} to {max(shares):.3f} of it",
            min(shares) > 0.98,
        )
        yield Claim(
            f"it falls to about 3.1, and the sixth rises above 1 (gamma {gamma})",
            f"means {last:.2f} and {sixth:.2f} over {len(found)} runs",
            2.6 < last < 3.7 and sixth > 1,
        )


FIG3B = Figure(
    "daneshmand2020/fig3b",
    "Top singular values by layer, from a nearly collinear batch: the largest falls, small rise.",
    0.2,
    {
        "gammas": [0.1, "inf"],
        "seeds": 20,
        "layers": {
            "0.1": [0, 1, 3, 10, 30, 100, 300, 1000, 3000],
            "inf": [0, 1, 2, 4, 8, 16, 32, 100],
        },
    },
    {"gammas": ["inf"], "seeds": 4, "layers": {"inf": [0, 1, 4, 8, 32, 100]}},
    tasks,
    row,
    plot,
    claims,
    "Ten singular values, of one batch: the same here, of 20; width 32 is chosen here.",
)
