"""Figure 2: singular values of `M + rho Id` against rho."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch

from sigmascope.linalg import skip_trajectory
from sigmascope_experiments.figures import Claim, Config, Figure, Row, Task, generator_of

SPREAD = 0.3


def tasks(config: Config) -> list[Task]:
    """The diagonal matrix, and Gaussian ones."""
    gaussian = [
        {"kind": "gaussian", "seed": seed, "steps": config["steps"]}
        for seed in range(config["seeds"])
    ]
    return [{"kind": "diagonal", "steps": config["steps"]}, *gaussian]


def row(task: Task, _: Path | None) -> Row:
    """Every branch at every strength."""
    M = torch.diag(torch.tensor([-0.4, -0.2, -0.1], dtype=torch.float64))
    if task["kind"] == "gaussian":
        M = SPREAD * torch.randn(15, 15, generator=generator_of(task), dtype=torch.float64)
    found = skip_trajectory(M, [k / task["steps"] for k in range(task["steps"] + 1)])
    turns = (found.sigma.diff(dim=0).sign().diff(dim=0) != 0).sum(0)
    return {
        "rho": found.rhos.tolist(),
        "sigma": found.sigma.T.tolist(),
        "turns": turns.tolist(),
        "largest": found.sorted[:, 0].tolist(),
    }


def plot(rows: list[Row], canvas: Any) -> None:
    """Both families side by side."""
    for place, kind in enumerate(("diagonal", "gaussian"), start=1):
        axes = canvas.add_subplot(1, 2, place)
        found = next(r for r in rows if r["task"]["kind"] == kind)
        for branch in found["sigma"]:
            axes.plot(found["rho"], branch)
        axes.set(xlabel="rho", ylabel="singular values", title=kind)


def claims(rows: list[Row], _: Config) -> Iterator[Claim]:
    """The largest value need not grow, and values turn without meeting."""
    diagonal = next(r for r in rows if r["task"]["kind"] == "diagonal")
    known = [max(abs(rho - 0.4), abs(rho - 0.2), abs(rho - 0.1)) for rho in diagonal["rho"]]
    off = max(abs(a - b) for a, b in zip(diagonal["largest"], known, strict=True))
    yield Claim(
        "the largest value of the diagonal matrix falls, then grows",
        f"{known[0]:.1f}, {min(known):.2f}, {known[-1]:.1f}; computed within {off:.0e}",
        off < 1e-12 and min(known) < known[0] < known[-1],
    )
    turns = [max(r["turns"]) for r in rows if r["task"]["kind"] == "gaussian"]
    yield Claim(
        "some value of each Gaussian matrix has several extrema",
        f"{min(turns)} to {max(turns)} in {len(turns)} matrices",
        min(turns) >= 2,
    )


FIG2 = Figure(
    "riedi2022/fig2",
    "Singular values of M + rho Id, of a diagonal and of Gaussian matrices of size 15.",
    0.1,
    {"steps": 1000, "seeds": 10},
    {"steps": 200, "seeds": 2},
    tasks,
    row,
    plot,
    claims,
    "A diagonal matrix of size 3 and a Gaussian one of size 15: the same here, of 10.",
)
