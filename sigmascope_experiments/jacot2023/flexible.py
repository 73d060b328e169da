"""Example 20: a bend at next to no cost beyond the rank."""

import math
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import torch

from sigmascope import theory
from sigmascope.models import Subject
from sigmascope_experiments.figures import Claim, Config, Figure, Row, Task

BUILT = 400  # depth up to which the network itself is run


def tasks(config: Config) -> list[Task]:
    """Every depth with every speed at which the layers approach isometries."""
    return [
        {"depth": depth, "gamma": gamma} for depth in config["depths"] for gamma in config["gammas"]
    ]


def row(task: Task, _: Path | None) -> Row:
    """Excess of the squared norm over `3 L`; of short networks also measured, with the function."""
    depth, eps = task["depth"], task["depth"] ** -task["gamma"]
    found: Row = {
        "excess": theory.random_chains.counterexample_excess(depth, eps),
        "log steepness": 0.0,
    }
    found["log steepness"] = (depth - 2) * eps / 2
    if depth <= BUILT and found["log steepness"] < 20:
        net = theory.random_chains.lipschitz_counterexample(depth, eps=eps)
        x = torch.rand(200, 3, generator=torch.Generator().manual_seed(depth), dtype=torch.float64)
        expected = torch.stack([x[:, 0], x[:, 1], x[:, 2] + (x[:, 0] - x[:, 1]).clamp(min=0)], 1)
        stack = Subject(net, x).stack
        assert not isinstance(stack, str)
        with torch.no_grad():
            found["error"] = float((net(x) - expected).abs().max())
        found["measured excess"] = stack.weight_norm - 3 * depth
    return found


def plot(rows: list[Row], canvas: Any) -> None:
    """Excess against depth."""
    ax = canvas.subplots()
    for gamma in dict.fromkeys(r["task"]["gamma"] for r in rows):
        mine = [r for r in rows if r["task"]["gamma"] == gamma]
        ax.loglog(*zip(*((r["task"]["depth"], r["excess"]) for r in mine), strict=True))
        ax.lines[-1].set_label(f"gamma {gamma}")
    ax.set(xlabel="depth", ylabel="‖θ‖² - 3 L")
    ax.legend()


def claims(rows: list[Row], config: Config) -> Iterator[Claim]:
    """The excess vanishes for speeds between 1/2 and 1 only, at any steepness."""
    built = [r for r in rows if "error" in r]
    yield Claim(
        "the network bends exactly, and its norm is as the formula says",
        f"{max(r['error'] for r in built):.1e} off at most",
        all(
            r["error"] < 1e-9
            and math.isclose(r["measured excess"], r["excess"], rel_tol=1e-6, abs_tol=1e-9)
            for r in built
        ),
    )
    deepest = max(config["depths"])
    last = {r["task"]["gamma"]: r for r in rows if r["task"]["depth"] == deepest}
    inside = [g for g in last if 0.5 < g < 1]
    yield Claim(
        f"at depth {deepest:g} the excess is small just for gamma between 1/2 and 1",
        ", ".join(f"{g}: {r['excess']:.3g}" for g, r in last.items()),
        all((last[g]["excess"] < 0.5) == (g in inside) for g in last),
    )
    steep = [[r["log steepness"] for r in rows if r["task"]["gamma"] == gamma] for gamma in inside]
    yield Claim(
        "where it vanishes, the map between the ends is the steeper the deeper",
        ", ".join(f"{gamma}: e^{many[-1]:.3g}" for gamma, many in zip(inside, steep, strict=True)),
        all(a < b for many in steep for a, b in pairwise(many)),
    )


GAMMAS = [0.4, 0.5, 0.6, 0.75, 0.9, 1.0, 1.2]
EXAMPLE20 = Figure(
    "jacot2023/example20",
    "Norm beyond 3 L of the network that computes (x, y, z + max(x - y, 0)), against depth.",
    1,
    {"depths": [10**p for p in range(1, 9)], "gammas": GAMMAS},
    {"depths": [20, 100, 10**8], "gammas": GAMMAS},
    tasks,
    row,
    plot,
    claims,
    "Statements for depths without end, and so no size: here to 10^8 layers.",
)
