"""Figure 2: a network that predicts costs of gradient descent learns the rotation symmetry."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from sigmascope import theory
from sigmascope.theory import jacot2023
from sigmascope_experiments.figures import Claim, Config, Figure, Row, Task, only_if
from sigmascope_experiments.jacot2023.learners import learned
from sigmascope_experiments.jacot2023.tasks import norm_claim, norm_excess
from sigmascope_experiments.training import CPU

ROTATED = 20  # rotations of each
GRID = 41  # pixels a side of the plane across the axis


def tasks(config: Config) -> list[Task]:
    """A network for every seed."""
    sizes = {k: v for k, v in config.items() if k != "seeds"}
    return [{**sizes, "seed": seed} for seed in range(config["seeds"])]


def weights_row(task: Task, _: Path | None, *, device: torch.device = CPU) -> Row:
    """Singular values of every weight, and the errors."""
    found = learned(task, device)
    matrices = [p.detach().double() for p in found.model.parameters() if p.ndim == 2]
    sigma = [torch.linalg.svdvals(W)[:10].tolist() for W in matrices]
    excess = norm_excess(found.model, found.held_out.starts.float())
    return {"sigma": sigma, "train": found.train, "test": found.test, "excess": excess}


def paths_row(task: Task, _: Path | None, *, device: torch.device = CPU) -> Row:
    """The two coordinates of the bottleneck, on paths of gradient descent."""
    found = learned(task, device)
    held = found.held_out
    starts = held.starts.float()
    now = theory.bottleneck.coordinates(found.model, starts)
    step = theory.bottleneck.self_consistency(found.model, starts, held.moved(held.starts).float())
    v, paths = held.starts[:12], []
    for _step in range(20):
        paths.append(now.of(_read(found.model, v, now.site)).tolist())
        v = held.moved(v)
    told = [
        theory.bottleneck.explained(now.values, held.statistics(held.starts)[:, [i]]).value
        for i in (0, 1)
    ]
    raw = [
        theory.bottleneck.explained(held.starts, held.statistics(held.starts)[:, [i]]).value
        for i in (0, 1)
    ]
    quiet = replace(held, noise=torch.zeros_like(held.noise))
    moved = quiet.statistics(quiet.moved(held.starts))
    closed = moved - jacot2023.constructions.statistics_moved(
        held.statistics(held.starts), held.rate
    )
    return {
        "closed": float(closed.abs().max()),
        "site": now.site,
        "share": now.share,
        "next": step.value,
        "statistics": told,
        "statistics of the input": raw,
        "paths": paths,
    }


def orbits_row(task: Task, _: Path | None, *, device: torch.device = CPU) -> Row:
    """Variance within orbits by layer, and distances in the second layer from one point."""
    found = learned(task, device)
    held = found.held_out
    g = torch.Generator().manual_seed(7)
    orbits = held.orbits(held.starts[:200], ROTATED, generator=g).float()
    variance = theory.bottleneck.orbit_variance(found.model, orbits)
    w = held.axis
    basis = torch.linalg.svd(w[None])[2][1:3]  # two directions across the axis
    line = torch.linspace(-1.5, 1.5, GRID, dtype=torch.float64)
    plane = (0.5 * w + line[:, None, None] * basis[0] + line[None, :, None] * basis[1]).flatten(
        0, 1
    )
    site = variance[2].site
    rows = _read(found.model, torch.cat([(0.5 * w + basis[0])[None], plane]), site)
    distance = (rows[1:] - rows[0]).norm(dim=1).reshape(GRID, GRID)
    quiet = replace(held, noise=torch.zeros_like(held.noise))
    costs = quiet.cost(orbits.double().flatten(0, 1)).unflatten(0, orbits.shape[:2])
    along, across = (held.starts[:200] @ w), held.statistics(held.starts[:200])[:, 1].mean()
    inside = across * (ROTATED - 1) / ROTATED
    return {
        "expected": float(inside / (across + along.var(correction=0))),
        "costs": float(costs.std(1).max() / costs.std()),
        "variance": [r.estimate.value for r in variance],
        "distance": distance.tolist(),
    }


def _read(model: nn.Module, v: Tensor, site: str) -> Tensor:
    return theory.bottleneck.representations(model, v.float())[site]


def plot_weights(rows: list[Row], canvas: Any) -> None:
    """Singular values by layer."""
    axes = canvas.subplots(1, len(rows), squeeze=False)[0]
    for ax, row in zip(axes, rows, strict=True):
        for i in range(10):
            ax.plot([s[i] if len(s) > i else None for s in row["sigma"]], color=f"C{min(i, 3)}")
        ax.set(xlabel="layer", ylabel="singular values")


def plot_paths(rows: list[Row], canvas: Any) -> None:
    """Paths of gradient descent in the two coordinates."""
    axes = canvas.subplots(1, len(rows), squeeze=False)[0]
    for ax, row in zip(axes, rows, strict=True):
        for path in zip(*row["paths"], strict=True):
            ax.plot(*zip(*path, strict=True), ".-", markersize=3)
        ax.set(title=f"read by layer {row['site']}")


def plot_orbits(rows: list[Row], canvas: Any) -> None:
    """Distances from a fixed point in the second hidden layer, on a plane across the axis."""
    axes = canvas.subplots(1, len(rows), squeeze=False)[0]
    for ax, row in zip(axes, rows, strict=True):
        ax.imshow(row["distance"], extent=(-1.5, 1.5, -1.5, 1.5))


def weights_claims(rows: list[Row], config: Config) -> Iterator[Claim]:
    """Two dimensions in the middle, and a good fit; norms keep to their bound."""
    yield norm_claim(rows)
    says = ("the middle third of the layers has rank 2", "errors are below 2 % of the variance")
    why = f"{config['steps']} steps of training are too few, 10000 are needed"
    yield from only_if(config["steps"] >= 10_000, why, says, _trained_weights(rows, config))


def _trained_weights(rows: list[Row], config: Config) -> Iterator[Claim]:
    ranks = [[sum(s > 0.1 for s in layer) for layer in r["sigma"]] for r in rows]
    third = config["depth"] // 3
    yield Claim(
        "the middle third of the layers has rank 2",
        f"{ranks}",
        all(set(many[third : 2 * third]) == {2} for many in ranks),
    )
    errors = [(r["train"], r["test"]) for r in rows]
    yield Claim(
        "training and test error are below 2 % of the variance",
        ", ".join(f"{a:.2%} and {b:.2%}" for a, b in errors),
        all(max(pair) < 0.02 for pair in errors),
    )


def paths_claims(rows: list[Row], config: Config) -> Iterator[Claim]:
    """The coordinates are summary statistics, which move by themselves."""
    off = max(r["closed"] for r in rows)
    yield Claim(
        "without noise the summary statistics of a step follow from those before it",
        f"{off:.1e} off at most",
        off < 1e-12,
    )
    says = (
        "two principal components hold more than 99 % of the variance",
        "the next step is told by the present coordinates",
        "they tell both summary statistics, which the input does not",
    )
    why = f"{config['steps']} steps of training are too few, 10000 are needed"
    yield from only_if(config["steps"] >= 10_000, why, says, _trained_paths(rows))


def _trained_paths(rows: list[Row]) -> Iterator[Claim]:
    yield Claim(
        "two principal components hold more than 99 % of the variance",
        ", ".join(f"{r['share']:.2%} at {r['site']}" for r in rows),
        all(r["share"] > 0.99 for r in rows),
    )
    yield Claim(
        "the next step is told by the present coordinates (R² above 0.9)",
        ", ".join(f"{r['next']:.4f}" for r in rows),
        all(r["next"] > 0.9 for r in rows),
    )
    yield Claim(
        "they tell both summary statistics (R² above 0.9), which the input does not",
        "; ".join(
            f"{r['statistics'][0]:.3f}, {r['statistics'][1]:.3f} against "
            f"{r['statistics of the input'][0]:.3f}, {r['statistics of the input'][1]:.3f}"
            for r in rows
        ),
        all(min(r["statistics"]) > 0.9 and min(r["statistics of the input"]) < 0.9 for r in rows),
    )


def orbits_claims(rows: list[Row], config: Config) -> Iterator[Claim]:
    """Orbits are points to the costs, are none to the input, and are from the second layer on."""
    off = max(r["costs"] for r in rows)
    yield Claim(
        "without noise the costs are the same all over an orbit",
        f"{off:.1e} of their spread at most",
        off < 1e-5,
    )
    apart = max(abs(r["variance"][0] - r["expected"]) for r in rows)
    yield Claim(
        "the share of the input's variance within orbits is that of the starts, within 0.02",
        ", ".join(f"{r['variance'][0]:.3f}, of {r['expected']:.3f}" for r in rows),
        apart < 0.02,
    )
    says = ("less than 5 % of the variance is within orbits from the second hidden layer on",)
    why = f"{config['steps']} steps of training are too few, 10000 are needed"
    yield from only_if(config["steps"] >= 10_000, why, says, _trained_orbits(rows))


def _trained_orbits(rows: list[Row]) -> Iterator[Claim]:
    yield Claim(
        "less than 5 % of the variance is within orbits from the second hidden layer on",
        "; ".join(", ".join(f"{v:.2g}" for v in r["variance"][:4]) for r in rows),
        all(max(r["variance"][2:]) < 0.05 and r["variance"][0] > 0.3 for r in rows),
    )


SIZES = {"dimension": 10, "depth": 12, "width": 100, "steps": 14_000, "samples": 4000, "seeds": 3}
QUICK = {"dimension": 4, "depth": 4, "width": 16, "steps": 30, "samples": 300, "seeds": 1}
PAPER = "in the paper depth 25 and width 200"
FULL = {**SIZES, "depth": 25, "width": 200, "seeds": 1}
STATED = (
    "A network of depth 25 and width 200, ridge 0.0002. Not stated, chosen here: 10 dimensions, 20 "
    "costs, 4000 samples, 14 000 steps of Adam in batches of 256, as at the usual size."
)

FIG2A = Figure(
    "jacot2023/fig2a",
    f"Singular values of a network that predicts gradient descent (depth 12, width 100; {PAPER}).",
    4,
    SIZES,
    QUICK,
    tasks,
    weights_row,
    plot_weights,
    weights_claims,
    STATED,
    FULL,
    on_device=True,
)
FIG2B = Figure(
    "jacot2023/fig2b",
    "Paths of gradient descent in the two coordinates of the same network's bottleneck.",
    4,
    SIZES,
    QUICK,
    tasks,
    paths_row,
    plot_paths,
    paths_claims,
    STATED,
    FULL,
    on_device=True,
)
FIG2C = Figure(
    "jacot2023/fig2c",
    "Orbits of the rotation symmetry in the representations of the same network.",
    4,
    SIZES,
    QUICK,
    tasks,
    orbits_row,
    plot_orbits,
    orbits_claims,
    STATED,
    FULL,
    on_device=True,
)
