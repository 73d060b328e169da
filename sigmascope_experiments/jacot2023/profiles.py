"""Figure 1b: singular values through networks of several depths that learned one rank."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from torch import nn

from sigmascope import theory
from sigmascope_experiments.figures import Claim, Config, Figure, Row, Task, only_if
from sigmascope_experiments.jacot2023.tasks import bottleneck_task, norm_claim, norm_excess, stack

RANK = 2
ENDS = 3  # layers at each end that are compared
CLOSE = 0.15  # of the largest singular value there


def tasks(config: Config) -> list[Task]:
    """One network a depth, on one draw of the data."""
    return [{"depth": depth, "steps": config["steps"]} for depth in config["depths"]]


def row(task: Task, _: Path | None) -> Row:
    """Singular values of every weight."""
    x, y = bottleneck_task(0, rank=RANK)
    model = stack(task["depth"], torch.Generator().manual_seed(1_000_003 * task["depth"]))
    theory.bottleneck.settle(model, x, y, steps=task["steps"])
    weights = [m.weight.detach().double() for m in model if isinstance(m, nn.Linear)]
    return {
        "excess": norm_excess(model, x),
        "sigma": [torch.linalg.svdvals(W)[:8].tolist() for W in weights],
    }


def plot(rows: list[Row], canvas: Any) -> None:
    """Singular values by layer, a panel a depth."""
    axes = canvas.subplots(1, len(rows), squeeze=False, sharey=True)[0]
    for ax, r in zip(axes, rows, strict=True):
        for i in range(8):
            ax.plot([s[i] for s in r["sigma"]], ".-", color=f"C{min(i, 3)}")
        ax.set(xlabel="layer", title=f"depth {r['task']['depth']}")


def claims(rows: list[Row], config: Config) -> Iterator[Claim]:
    """One structure at the ends, and a part of rank two that grows; norms keep to their bound."""
    yield norm_claim(rows)
    says = (f"layers of rank {RANK} are added in the middle", "the ends agree between depths")
    why = f"{config['steps']} steps of training are too few, 8000 are needed"
    yield from only_if(config["steps"] >= 8000, why, says, _trained_claims(rows, config))


def _trained_claims(rows: list[Row], config: Config) -> Iterator[Claim]:
    middles = [[sum(v > 0.1 for v in layer) for layer in r["sigma"]] for r in rows]
    counts = [sum(rank == RANK for rank in many) for many in middles]
    depths = config["depths"]
    yield Claim(
        f"layers of rank {RANK} are added in the middle: as many as the depth grows by, within two",
        f"{dict(zip(depths, counts, strict=True))}",
        all(
            abs((n - counts[0]) - (d - depths[0])) <= 2 for d, n in zip(depths, counts, strict=True)
        ),
    )
    firsts = [torch.tensor(r["sigma"])[:ENDS, :RANK] for r in rows]
    lasts = [torch.tensor(r["sigma"])[-ENDS:, :RANK] for r in rows]
    apart = [
        float((one - ends[0]).abs().max() / ends[0].max())
        for ends in (firsts, lasts)
        for one in ends[1:]
    ]
    yield Claim(
        f"the {RANK} leading singular values of the first and last {ENDS} layers agree between "
        f"depths within {CLOSE:.0%}",
        f"{max(apart):.1%} at most",
        max(apart) < CLOSE,
    )


FIG1B = Figure(
    "jacot2023/fig1b",
    "Singular values of every weight in networks of four depths that learned rank 2.",
    5,
    {"depths": [12, 16, 20, 24], "steps": 12_000},
    {"depths": [3, 4], "steps": 40},
    tasks,
    row,
    plot,
    claims,
    "Four networks on the data of Figure 1a: the same here, of depths that are chosen here.",
)
