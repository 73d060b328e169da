"""Figure 8: the toy network whose skip connection is turned up."""

import math
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional as F

from sigmascope.linalg import dense
from sigmascope_experiments.figures import Claim, Config, Figure, Row, Task, generator_of

WIDTH, ETA = 6, 0.1
AROUND = ("the first layer", "both layers")  # as in the text (158); as the figure's labels say
# mean logarithm of the condition number at rho = 0 and 1, with errors, of another simulation
KNOWN = {
    AROUND[0]: ((9.184, 0.039), (7.614, 0.036)),
    AROUND[1]: ((9.184, 0.039), (4.786, 0.028)),
}


def tasks(config: Config) -> list[Task]:
    """Both places of the skip connection, at each strength."""
    steps = config["steps"]
    return [
        {"around": around, "rho": k / steps, "draws": config["draws"]}
        for around in AROUND
        for k in range(steps + 1)
    ]


def row(task: Task, _: Path | None) -> Row:
    """Largest and smallest singular value for each network; the same networks in every row."""
    first, last = ends(task["rho"], task["around"], task["draws"])
    logs = (first / last).log()
    return {
        "largest": first[:8].tolist(),
        "smallest": last[:8].tolist(),
        "median largest": dense.median(first),
        "median smallest": dense.median(last),
        "median condition": math.exp(dense.median(logs)),
        "mean log": logs.mean().item(),
        "error": logs.std().item() / math.sqrt(len(logs)),
    }


def ends(rho: float, around: str, draws: int) -> tuple[Tensor, Tensor]:
    """Largest and smallest singular value of `M(rho) D_0`, activations computed at this rho."""
    g = generator_of({"draws": draws})
    normal = lambda *shape: torch.randn(draws, *shape, generator=g, dtype=torch.float64)
    W0, W1, W2 = normal(WIDTH, 2), normal(WIDTH, WIDTH), normal(WIDTH, WIDTH)
    b0, b1, b2, x = normal(WIDTH, 1), normal(WIDTH, 1), normal(WIDTH, 1), normal(2, 1)
    eye = torch.eye(WIDTH, dtype=torch.float64)
    slopes = lambda p: torch.where(p > 0, 1.0, ETA)
    p0 = W0 @ x + b0
    z0 = F.leaky_relu(p0, ETA)
    p1 = W1 @ z0 + b1
    first = slopes(p1) * W1
    if around == AROUND[0]:
        p2 = W2 @ (F.leaky_relu(p1, ETA) + rho * z0) + b2
        M = slopes(p2) * (W2 @ (first + rho * eye))
    else:
        p2 = W2 @ F.leaky_relu(p1, ETA) + b2
        M = slopes(p2) * (W2 @ first) + rho * eye
    s = torch.linalg.svdvals(M * slopes(p0).mT)
    return s[:, 0], s[:, -1]


def plot(rows: list[Row], canvas: Any) -> None:
    """Eight networks, and the median condition number of all, for both places."""
    panels = canvas.subplots(2, 3)
    for line, around in zip(panels, AROUND, strict=True):
        mine = [r for r in rows if r["task"]["around"] == around]
        rhos = [r["task"]["rho"] for r in mine]
        for axes, name in zip(line, ("largest", "smallest"), strict=False):
            for k in range(len(mine[0][name])):
                axes.plot(rhos, [r[name][k] for r in mine])
            axes.set(title=f"{name}, around {around}", xlabel="rho", yscale="log")
        line[2].plot(rhos, [r["median condition"] for r in mine])
        line[2].set(title="median condition number", xlabel="rho", yscale="log")


def claims(rows: list[Row], config: Config) -> Iterator[Claim]:
    """The condition number falls as the skip connection is turned up."""
    for around in AROUND:
        mine = [r for r in rows if r["task"]["around"] == around]
        yield Claim(
            f"the mean logarithm of the condition number falls at every step, around {around}",
            ", ".join(f"{r['mean log']:.2f}" for r in mine),
            all(a["mean log"] > b["mean log"] for a, b in pairwise(mine)),
        )
        both = zip((mine[0], mine[-1]), KNOWN[around], strict=True)
        far = [(r["mean log"] - k) / math.hypot(r["error"], e) for r, (k, e) in both]
        yield Claim(
            f"its ends agree with another simulation within 3.5 standard errors, around {around}",
            ", ".join(f"{z:.2f}" for z in far),
            max(map(abs, far)) <= 3.5,
        )
    better = [
        (f / s < f0 / s0).double().mean().item()
        for (f, s), (f0, s0) in (
            (ends(1.0, a, config["draws"]), ends(0.0, a, config["draws"])) for a in AROUND
        )
    ]
    yield Claim(
        "a full skip connection improves most networks, around both layers nearly all",
        " and ".join(f"{b:.3f}" for b in better),
        better[0] > 0.75 and better[1] > 0.95,
    )


FIG8 = Figure(
    "riedi2022/fig8",
    "Singular values of a toy network against its skip connection, as in the text and as labelled.",
    0.1,
    {"steps": 10, "draws": 20_000},
    {"steps": 4, "draws": 2000},
    tasks,
    row,
    plot,
    claims,
    "A toy of width 6, 8 runs: the same here, of 20 000 for the means.",
)
