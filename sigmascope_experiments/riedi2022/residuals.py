"""Figures 6 and 7: how sharp the bounds of random residual layers are."""

import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from sigmascope.linalg.random_matrix import shifted_limits
from sigmascope.theory import riedi2022
from sigmascope_experiments.figures import Claim, Config, Figure, Row, Task
from sigmascope_experiments.riedi2022.edges import draws

BINS, LOW, HIGH = 80, 1.0, 2.2
# r, n: means of kappa (with error) and of the ratios a, b, c, of an independent simulation
KNOWN = {
    (2, 5): (1.4485, 0.0004, (1.082, 1.025, 1.054)),
    (2, 10): (1.5287, 0.0003, (1.103, 1.026, 1.064)),
    (2, 25): (1.5889, 0.0003, (1.122, 1.027, 1.074)),
    (2, 50): (1.6158, 0.0003, (1.132, 1.028, 1.079)),
    (2, 100): (1.6318, 0.0004, (1.139, 1.028, 1.082)),
    (3, 5): (1.2780, 0.0002, (1.029, 1.013, 1.021)),
    (3, 10): (1.3251, 0.0002, (1.036, 1.014, 1.025)),
    (3, 25): (1.3595, 0.0002, (1.043, 1.014, 1.028)),
    (3, 50): (1.3746, 0.0002, (1.046, 1.014, 1.030)),
    (3, 100): (1.3835, 0.0002, (1.048, 1.014, 1.031)),
}


def tasks(config: Config) -> list[Task]:
    """Every inverse scale at each size."""
    return [
        {"law": "gaussian", "r": r, "n": n, "draws": config["entries"] // n**2}
        for r in config["r"]
        for n in config["sizes"]
    ]


def row(task: Task, _: Path | None) -> Row:
    """The condition number of `W + Id` and three ratios of bounds to what they bound."""
    n, r, parts = task["n"], task["r"], []
    for K in draws(task):
        W = riedi2022.random_weights.weight_spread(n, r) * K
        s = torch.linalg.svdvals(W)
        after = torch.linalg.svdvals(W + torch.eye(n, dtype=W.dtype))
        tau = torch.linalg.eigvalsh(W + W.mT)
        low, high = tau[:, 0], tau[:, -1]
        kappa = after[:, 0] / after[:, -1]
        wide = s[:, 0].square() + high + 1
        parts.append(
            torch.stack(
                [
                    kappa,
                    after[:, -1].square() / (s[:, -1].square() + low + 1),
                    wide / after[:, 0].square(),
                    (wide / (low + 1)).sqrt() / kappa,
                ]
            )
        )
    return _row(torch.cat(parts, dim=1), r)


def _row(values: Tensor, r: float) -> Row:
    kappa, *ratios = values
    return {
        "mean": kappa.mean().item(),
        "error": kappa.std().item() / math.sqrt(len(kappa)),
        "counts": torch.histc(kappa, BINS, LOW, HIGH).tolist(),
        "above": (kappa > riedi2022.random_weights.condition_limits(r)[0]).double().mean().item(),
        "ratios": [v.mean().item() for v in ratios],
        "least": [v.min().item() for v in ratios],
    }


def plot_ratios(rows: list[Row], canvas: Any) -> None:
    """Means of the three ratios against the size."""
    axes = canvas.add_subplot()
    for r in dict.fromkeys(row["task"]["r"] for row in rows):
        mine = [row for row in rows if row["task"]["r"] == r]
        for place, name in enumerate("abc"):
            sizes = [row["task"]["n"] for row in mine]
            axes.plot(sizes, [row["ratios"][place] for row in mine], label=f"{name}, r = {r}")
    axes.set(xscale="log", xlabel="n", ylabel="bound over what it bounds")
    axes.legend()


def plot_conditions(rows: list[Row], canvas: Any) -> None:
    """Densities of the condition number, with the asymptotic bound and the true limit."""
    width = (HIGH - LOW) / BINS
    middles = [LOW + (k + 0.5) * width for k in range(BINS)]
    scales = list(dict.fromkeys(row["task"]["r"] for row in rows))
    for place, r in enumerate(scales, start=1):
        axes = canvas.add_subplot(1, len(scales), place)
        for found in (row for row in rows if row["task"]["r"] == r):
            total = found["task"]["draws"] * width
            label = f"n = {found['task']['n']}"
            axes.plot(middles, [c / total for c in found["counts"]], label=label)
        axes.axvline(riedi2022.random_weights.condition_limits(r)[0], color="black", label="(121)")
        top, bottom = shifted_limits(1 / (r * math.sqrt(8)))
        axes.axvline(top / bottom, color="grey", linestyle="--", label="limit")
        axes.set(title=f"r = {r}", xlabel="condition number")
        axes.legend()


def _agreement(rows: list[Row]) -> Iterator[Claim]:
    far = {}
    for found in rows:
        place = found["task"]["r"], found["task"]["n"]
        if place in KNOWN:
            mean, error, _ = KNOWN[place]
            # half a digit of the table is added to its error
            far[place] = (found["mean"] - mean) / math.hypot(found["error"], error, 5e-5)
    largest = max(far.values(), key=abs)
    yield Claim(
        "mean condition numbers agree with an independent simulation within 3.5 standard errors",
        f"{len(far)} places, the largest distance {largest:.2f}",
        abs(largest) <= 3.5,
    )


def ratio_claims(rows: list[Row], _: Config) -> Iterator[Claim]:
    """Figure 6: the bounds hold for every matrix and are close."""
    yield from _agreement(rows)
    least = min(x for found in rows for x in found["least"])
    yield Claim("no ratio is below 1", f"the least is {least:.6f}", least >= 1 - 1e-12)
    pairs = [
        (a, b)
        for found in rows
        for a, b in zip(
            found["ratios"], KNOWN[found["task"]["r"], found["task"]["n"]][2], strict=True
        )
    ]
    off = max(abs(a - b) for a, b in pairs)
    yield Claim("the mean ratios are those of the reference", f"within {off:.4f}", off < 0.004)


def condition_claims(rows: list[Row], _: Config) -> Iterator[Claim]:
    """Figure 7: condition numbers stay below the asymptotic bound, near the true limit."""
    yield from _agreement(rows)
    large = [found for found in rows if found["task"]["n"] >= 50]
    above = max((found["above"] for found in large), default=0.0)
    yield Claim("from n = 50 on none exceeds (121)", f"a share of {above:g}", above == 0)
    for r in dict.fromkeys(row["task"]["r"] for row in rows):
        top, bottom = shifted_limits(1 / (r * math.sqrt(8)))
        means = [row["mean"] for row in rows if row["task"]["r"] == r]
        yield Claim(
            f"the means rise towards the limit {top / bottom:.4f} at r = {r}",
            ", ".join(f"{m:.3f}" for m in means),
            means == sorted(means) and means[-1] < top / bottom,
        )


FULL = {"r": [2, 3], "sizes": [5, 10, 25, 50, 100], "entries": 2**24}
QUICK = {"r": [2], "sizes": [5, 25], "entries": 2**19}
FIG6 = Figure(
    "riedi2022/fig6",
    "Bounds (115) and (116) of singular values and condition numbers, over what they bound.",
    3,
    FULL,
    QUICK,
    tasks,
    row,
    plot_ratios,
    ratio_claims,
    "r = 2: the same here, and 3; sizes as in Figure 4 and the number of draws are chosen here.",
)
FIG7 = Figure(
    "riedi2022/fig7",
    "The condition number of W + Id, the asymptotic bound (121) and the exact limit.",
    3,
    FULL,
    QUICK,
    tasks,
    row,
    plot_conditions,
    condition_claims,
    "r = 2 and 3: the same here; sizes as in Figure 4 and the number of draws are chosen here.",
)
