"""Figure 2: rank of the last representation against depth, with and without batch normalisation."""

import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch

from sigmascope import linalg
from sigmascope.models import networks
from sigmascope_experiments.figures import Claim, Config, Figure, Row, Task, untested

WIDTH = 32
ENOUGH = 10  # seeds from which standard errors can be trusted
DIGIT = 0.05  # what the reference is rounded to
KINDS = {
    "linear": {"activation": "linear"},
    "linear, BN": {"activation": "linear", "norm": "batch-uncentred", "eps": 0.0},
    "ReLU": {"activation": "relu"},
    "ReLU, BN": {"activation": "relu", "norm": "batch-uncentred", "eps": 0.0},
    "ReLU, BN centred": {"activation": "relu", "norm": "batch", "eps": 1e-30},
}
# rank and participation ratio at some depths, with standard errors, of an independent simulation
KNOWN = {
    ("linear", 64): ((9.4, 0.2), (1.22, 0.12)),
    ("linear", 256): ((3.3, 0.2), (1.03, 0.02)),
    ("linear, BN", 64): ((14.4, 0.2), (4.81, 0.11)),
    ("linear, BN", 256): ((10.4, 0.2), (4.82, 0.18)),
    ("ReLU", 64): ((15.6, 0.9), (1.012, 0.006)),
    ("ReLU, BN", 256): ((30.2, 0.4), (2.78, 0.08)),
    ("ReLU, BN centred", 64): ((32.0, 0.0), (5.21, 0.21)),
}


def tasks(config: Config) -> list[Task]:
    """A row for each kind of network and seed, at every depth."""
    return [
        {"kind": kind, "seed": 1000 + seed, "depths": config["depths"]}
        for kind in KINDS
        for seed in range(config["seeds"])
    ]


def row(task: Task, _: Path | None) -> Row:
    """Numerical rank and participation ratio after so many layers, rescaled so as not to vanish."""
    g = torch.Generator().manual_seed(task["seed"])
    x = torch.randn(WIDTH, WIDTH, generator=g, dtype=torch.float64)
    found = {}
    for depth in range(1, task["depths"][-1] + 1):
        block = networks.mlp(
            inputs=WIDTH, outputs=1, depth=1, width=WIDTH, bias=False, generator=g,
            **KINDS[task["kind"]],
        ).double()  # fmt: skip
        with torch.no_grad():
            x = block.hidden(x)
            x = x / x.square().mean().sqrt()
        if depth in task["depths"]:
            s = linalg.spectra.spectrum(x)
            found[str(depth)] = [
                linalg.matrix_rank(s).value,
                linalg.participation_ratio(s).value,
            ]
    return {"found": found}


def plot(rows: list[Row], canvas: Any) -> None:
    """Rank and participation ratio against depth, means over the seeds."""
    both = canvas.subplots(1, 2)
    for place, name in enumerate(("numerical rank", "participation ratio")):
        axes = both[place]
        for kind in KINDS:
            means = _means(rows, kind, place)
            axes.plot(list(means), [m for m, _ in means.values()], marker="o", label=kind)
        axes.axhline(math.sqrt(WIDTH), color="grey", linestyle="--")
        axes.set(xscale="log", yscale="log", xlabel="depth", ylabel=name)
    both[1].legend()


def _means(rows: list[Row], kind: str, place: int) -> dict[int, tuple[float, float]]:
    """Mean over the seeds, and its standard error, by depth."""
    mine = [r["found"] for r in rows if r["task"]["kind"] == kind]
    result = {}
    for depth in mine[0]:
        values = [found[depth][place] for found in mine]
        mean = sum(values) / len(values)
        spread = sum((v - mean) ** 2 for v in values) / max(1, len(values) - 1)
        result[int(depth)] = (mean, math.sqrt(spread / len(values)))
    return result


def claims(rows: list[Row], config: Config) -> Iterator[Claim]:
    """Ranks fall without batch normalisation and stay with it."""
    far = {}
    for (kind, depth), known in KNOWN.items():
        for place in (0, 1):
            mean, error = _means(rows, kind, place).get(depth, (math.nan, 0.0))
            distance = mean - known[place][0]
            far[kind, depth, place] = distance / math.hypot(error, known[place][1], DIGIT)
    far = {where: z for where, z in far.items() if not math.isnan(z)}
    says = "agrees with an independent simulation within 3.5 standard errors"
    largest = max(far.values(), key=abs)
    found = f"{len(far)} entries, the largest distance {largest:.2f}"
    few = f"{config['seeds']} seeds give no standard error, {ENOUGH} are needed"
    agrees = Claim(says, found, abs(largest) <= 3.5)
    yield agrees if config["seeds"] >= ENOUGH else untested(says, few)
    last = max(int(d) for d in rows[0]["found"])
    for kind, falls in (("linear", True), ("ReLU", True), ("linear, BN", False)):
        ratio = _means(rows, kind, 1)[last][0]
        rank = _means(rows, kind, 0)[last][0]
        yield Claim(
            f"{kind}: the participation ratio at depth {last} is "
            + ("below 1.6" if falls else "above 4, and the rank above the root of the width"),
            f"{ratio:.3f}, rank {rank:.1f}",
            ratio < 1.6 if falls else ratio > 4 and rank > math.sqrt(WIDTH),
        )


FIG2 = Figure(
    "daneshmand2020/fig2",
    "Rank against depth at width 32, linear and ReLU layers, with and without batch normalisation.",
    2,
    {"depths": [1, 4, 16, 64, 256, 1024], "seeds": 10},
    {"depths": [1, 4, 16, 64], "seeds": 3},
    tasks,
    row,
    plot,
    claims,
    "Width 32, 10 runs: the same here.",
)
