"""Figures 4 and 5: the largest eigenvalues of random matrices and the Tracy-Widom law."""

import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from sigmascope.linalg.random_matrix import TracyWidom, singular_edge, symmetric_edge
from sigmascope_experiments.figures import Claim, Config, Figure, Row, Task, generator_of

BINS, LOW, HIGH = 60, -6.0, 6.0
AT_ONCE = 2**22  # entries of random matrices that are held together
# mean of Z_n, of Y_n, each with its error, of an independent simulation with Gaussian entries
KNOWN = {
    5: ((-2.2249, 0.0041), (-1.0345, 0.0024)),
    10: ((-2.0979, 0.0057), (-1.1084, 0.0036)),
    25: ((-1.9915, 0.0090), (-1.1584, 0.0060)),
    50: ((-1.9178, 0.0126), (-1.1736, 0.0087)),
    100: ((-1.847, 0.020), (-1.195, 0.014)),
}
FULL = {"sizes": [5, 10, 25, 50, 100], "entries": 2**25}
QUICK = {"sizes": [5, 25], "entries": 2**20}


def draws(task: Task) -> Iterator[Tensor]:
    """Square matrices of variance 1, some at a time."""
    n, left, generator = task["n"], task["draws"], generator_of(task)
    while left > 0:
        count = min(left, max(1, AT_ONCE // n**2))
        if task["law"] == "gaussian":
            yield torch.randn(count, n, n, generator=generator, dtype=torch.float64)
        else:
            numbers = torch.rand(count, n, n, generator=generator, dtype=torch.float64)
            yield (2 * numbers - 1) * math.sqrt(3)
        left -= count


def tasks(config: Config) -> list[Task]:
    """Both laws of the entries, at each size."""
    return [
        {"law": law, "n": n, "draws": config["entries"] // n**2}
        for law in ("gaussian", "uniform")
        for n in config["sizes"]
    ]


def row(task: Task, _: Path | None) -> Row:
    """The centred and scaled edges, summarised."""
    n, parts = task["n"], []
    symmetric, singular = symmetric_edge(n), singular_edge(n)
    for K in draws(task):
        edge = torch.linalg.eigvalsh(K + K.mT)[:, -1]
        top_sq = torch.linalg.eigvalsh(K @ K.mT)[:, -1]
        parts.append(
            torch.stack(
                [
                    (edge - math.sqrt(8 * n)) * n ** (1 / 6),
                    (edge - symmetric.centre) / symmetric.scale,
                    (top_sq - singular.centre) / singular.scale,
                    edge / (2 * top_sq).sqrt(),
                ]
            )
        )
    values = torch.cat(parts, dim=1)
    names = ("Z", "Z finite", "Y", "ratio")
    return {name: _summary(v) for name, v in zip(names, values, strict=True)}


def _summary(values: Tensor) -> dict[str, Any]:
    return {
        "mean": values.mean().item(),
        "error": values.std().item() / math.sqrt(len(values)),
        "std": values.std().item(),
        "least": values.min().item(),
        "most": values.max().item(),
        "counts": torch.histc(values, BINS, LOW, HIGH).tolist(),
    }


def _plot(rows: list[Row], canvas: Any, name: str, scale: float) -> None:
    width = (HIGH - LOW) / BINS
    middles = [LOW + (k + 0.5) * width for k in range(BINS)]
    for place, law in enumerate(("gaussian", "uniform"), start=1):
        axes = canvas.add_subplot(1, 2, place)
        for r in (r for r in rows if r["task"]["law"] == law):
            total = r["task"]["draws"] * width
            heights = [c / total for c in r[name]["counts"]]
            axes.plot(middles, heights, label=f"n = {r['task']['n']}")
        limit = TracyWidom()
        axes.plot(middles, [limit.pdf(x / scale) / scale for x in middles], "k--", label="limit")
        axes.set(title=law, xlabel=name)
        axes.legend()


def plot_symmetric(rows: list[Row], canvas: Any) -> None:
    """Densities of `Z_n`, and √2 times the Tracy-Widom law."""
    _plot(rows, canvas, "Z", math.sqrt(2))


def plot_singular(rows: list[Row], canvas: Any) -> None:
    """Densities of `Y_n`, and the Tracy-Widom law."""
    _plot(rows, canvas, "Y", 1.0)


def _agreement(rows: list[Row], name: str, place: int) -> Iterator[Claim]:
    far = {}
    for r in rows:
        if r["task"]["law"] == "gaussian" and r["task"]["n"] in KNOWN:
            mean, error = KNOWN[r["task"]["n"]][place]
            far[r["task"]["n"]] = (r[name]["mean"] - mean) / math.hypot(r[name]["error"], error)
    largest = max(far.values(), key=abs)
    yield Claim(
        f"the means of {name}_n agree with an independent simulation within 3.5 standard errors",
        f"{len(far)} sizes, the largest distance {largest:.2f}",
        abs(largest) <= 3.5,
    )


def symmetric_claims(rows: list[Row], _: Config) -> Iterator[Claim]:
    """Figure 4: the histograms of `Z_n` collapse, on √2 times the law."""
    yield from _agreement(rows, "Z", 0)
    most = max(r["Z"]["most"] for r in rows)
    yield Claim("Z_n never exceeds 8", f"at most {most:.2f}", most < 8)
    finite = [r["Z finite"] for r in rows if r["task"]["law"] == "gaussian"]
    gaps = [abs(s["mean"] - TracyWidom().mean) - 3.5 * s["error"] for s in finite]
    yield Claim(
        "centred and scaled for its size, the mean is within 0.06 of that of the law",
        f"at most {max(abs(s['mean'] - TracyWidom().mean) for s in finite):.3f} off",
        max(gaps) < 0.06,
    )


def singular_claims(rows: list[Row], _: Config) -> Iterator[Claim]:
    """Figure 5: `Y_n` collapses on the law; the edges agree."""
    yield from _agreement(rows, "Y", 1)
    near = [r["ratio"] for r in rows if r["task"]["n"] >= 10]
    if near:
        low, high = min(r["least"] for r in near), max(r["most"] for r in near)
        yield Claim(
            "the largest eigenvalue of the symmetric part over √2 s_1 is between 0.3 and 1.45 "
            "from n = 10 on",
            f"{low:.2f} to {high:.2f}",
            low > 0.3 and high < 1.45,
        )


FIG4 = Figure(
    "riedi2022/fig4",
    "The largest eigenvalue of K + Kᵀ, Gaussian and uniform, for n = 5 to 100.",
    3,
    FULL,
    QUICK,
    tasks,
    row,
    plot_symmetric,
    symmetric_claims,
    "Sizes 5 to 100, Gaussian and uniform: the same here; the number of draws is chosen here.",
)
FIG5 = Figure(
    "riedi2022/fig5",
    "The largest singular value of K, and its ratio to the edge of the symmetric part.",
    3,
    FULL,
    QUICK,
    tasks,
    row,
    plot_singular,
    singular_claims,
    "Sizes are stated for Figure 4 alone: the same here; the number of draws is chosen here.",
)
