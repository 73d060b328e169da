"""Figure 1a: rank and norm against depth, on a task of dimension 2."""

from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import torch
from torch import nn

from sigmascope import theory
from sigmascope_experiments.figures import Claim, Config, Figure, Row, Task, only_if
from sigmascope_experiments.jacot2023.tasks import bottleneck_task, norm_claim, norm_excess, stack

RANK = 2  # of the task
RIDGE = 1e-3


def tasks(config: Config) -> list[Task]:
    """Every depth on every draw of the data."""
    return [
        {"depth": depth, "data": data, "steps": config["steps"]}
        for data in range(config["draws"])
        for depth in config["depths"]
    ]


def row(task: Task, _: Path | None) -> Row:
    """One network, trained."""
    x, y = bottleneck_task(task["data"], rank=RANK)
    sizes = {"depths": [task["depth"]], "steps": task["steps"], "ridge": RIDGE}
    kept: list[nn.Module] = []

    def factory(depth: int, generator: torch.Generator) -> nn.Module:
        kept.append(stack(depth, generator))  # trained in place
        return kept[-1]

    (network,) = theory.bottleneck.depth_sweep(factory, x, y, **sizes).networks
    return {
        "rank": list(network.rank),
        "dimension": list(network.dimension),
        "norm": network.norm,
        "cost": network.cost,
        "tangent": network.tangent,
        "fits": network.fits,
        "excess": norm_excess(kept[-1], x),
    }


def _networks(rows: list[Row]) -> list[theory.bottleneck.Trained]:
    return [
        theory.bottleneck.Trained(
            r["task"]["depth"],
            RIDGE,
            r["task"]["data"],
            r["cost"],
            r["norm"],
            (r["rank"][0], r["rank"][1], r["rank"][2]),
            (r["dimension"][0], r["dimension"][1], r["dimension"][2]),
            r["tangent"],
            r["fits"],
        )
        for r in rows
    ]


def _interval(rank: tuple[int, int, int]) -> str:
    value, low, high = rank
    return f"{value}" if low == high else f"{value} [{low}, {high}]"


def plot(rows: list[Row], canvas: Any) -> None:
    """Rank and norm by depth; networks that do not fit are crosses."""
    left, right = canvas.subplots(1, 2)
    for n in _networks(rows):
        mark = "o" if n.fits else "x"
        left.plot(n.depth, n.rank[0], mark, color=f"C{n.seed}")
        right.plot(n.depth, n.norm, mark, color=f"C{n.seed}")
    left.set(xlabel="depth", ylabel="rank of the narrowest weight")
    right.set(xlabel="depth", ylabel="‖θ‖²")


def claims(rows: list[Row], config: Config) -> Iterator[Claim]:
    """Norms keep to their bound; ranks fall in segments, with the norm affine in each."""
    yield norm_claim(rows)
    says = (
        "the rank falls with depth",
        f"the task's dimension {RANK} is found",
        "the squared norm grows by the rank a layer",
        "networks that do not fit have a large tangent kernel",
    )
    why = f"{config['steps']} steps of training are too few, 8000 are needed"
    yield from only_if(config["steps"] >= 8000, why, says, _trained_claims(rows, config))


def _trained_claims(rows: list[Row], config: Config) -> Iterator[Claim]:
    draws = range(config["draws"])
    mine = [[r for r in rows if r["task"]["data"] == data] for data in draws]
    sweeps = [theory.bottleneck.read_sweep(_networks(many)) for many in mine]
    ranks = [[n.rank for n in s.networks if n.fits] for s in sweeps]
    yield Claim(
        "the rank of networks that fit falls with depth, by one exception a draw at most that "
        "the intervals of both ranks exclude",
        "; ".join(" ".join(map(_interval, many)) for many in ranks),
        all(sum(b[1] > a[2] for a, b in pairwise(many)) <= 1 for many in ranks),
    )
    yield Claim(
        f"the task's dimension {RANK} is found in every draw",
        "; ".join(s.says for s in sweeps),
        all(s.rank.value == RANK for s in sweeps),
    )
    lines = [s for sweep in sweeps for s in sweep.segments if s.fits and len(s.depths) > 1]
    said = ", ".join(f"rank {s.rank}: {s.slope.value:.2f}" for s in lines)
    yield Claim(
        "at the task's rank the squared norm grows by it a layer within 10 %; at the ranks above, "
        "met at small depths, by less than the rank",
        said,
        all(abs(s.slope.value / RANK - 1) < 0.1 for s in lines if s.rank == RANK)
        and all(s.slope.value < s.rank for s in lines if s.rank > RANK),
    )
    under = [(s, sweep) for sweep in sweeps for s in sweep.segments if not s.fits]
    if under:
        pairs = [(s.tangent, max(t.tangent for t in w.segments if t.fits)) for s, w in under]
        yield Claim(
            "networks that do not fit have a tangent kernel several times as large",
            ", ".join(f"{a:.0f} against {b:.0f}" for a, b in pairs),
            all(a > 3 * b for a, b in pairs),
        )


DEPTHS = [4, 6, 8, 10, 12, 14, 16, 20, 24]
FIG1A = Figure(
    "jacot2023/fig1a",
    "Rank of the narrowest weight and squared norm against depth (width 50, 300 samples).",
    15,
    {"depths": DEPTHS, "draws": 4, "steps": 8000},
    {"depths": [3, 5], "draws": 1, "steps": 60},
    tasks,
    row,
    plot,
    claims,
    "Ridge 0.001, data of rank 2 from 8 latent coordinates to 20 outputs, depths until training "
    "fails above 25. Not stated, chosen here: width 50, 300 samples, 8000 steps, 4 draws.",
    {"depths": [*DEPTHS, 26, 28, 30], "draws": 4, "steps": 8000},
)
