"""Figure 3: a toy network cuts the plane, layer by layer."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch

from sigmascope import theory
from sigmascope.models import networks
from sigmascope_experiments.figures import Claim, Config, Figure, Row, Task, generator_of

WIDTH, DEPTH, HALF = 3, 3, 2.0


def tasks(config: Config) -> list[Task]:
    """Some networks."""
    return [{"seed": seed, "points": config["points"]} for seed in range(config["networks"])]


def row(task: Task, _: Path | None) -> Row:
    """The polygons of one network, and the patterns that a fine grid finds."""
    g = generator_of({"seed": task["seed"]})
    net = networks.mlp(inputs=2, outputs=1, depth=DEPTH, width=WIDTH, init="he", generator=g)
    net = net.double()
    with torch.no_grad():
        for p in net.parameters():
            if p.ndim == 1:
                p.normal_(generator=g)
    zero = torch.zeros(1, 2, dtype=torch.float64)
    axes = HALF * torch.eye(2, dtype=torch.float64)
    found = theory.piecewise_affine.partition(net, zero, axes[:1], axes[1:])
    areas = [_area(p) for p in found.polygons]
    return {
        "counts": list(found.counts),
        "area": sum(areas),
        "seen": _patterns(net, task["points"]),
        "open ends": _open_ends(found),
        "cuts": found.cuts.tolist(),
        "by": found.by.tolist(),
    }


def _area(p: torch.Tensor) -> float:
    x, y = (p - p[0]).T
    return 0.5 * float((x * y.roll(-1) - y * x.roll(-1)).sum())


def _patterns(net: torch.nn.Module, points: int) -> int:
    """Different sets of units that are on, over a grid."""
    axis = torch.linspace(-HALF, HALF, points, dtype=torch.float64)
    grid = torch.cartesian_prod(axis, axis)
    on = []
    hooks = [
        m.register_forward_hook(lambda _, __, out: on.append(out > 0))
        for m in net.modules()
        if isinstance(m, torch.nn.ReLU)
    ]
    with torch.no_grad():
        net(grid)
    for hook in hooks:
        hook.remove()
    return len(torch.cat(on, dim=1).unique(dim=0))


def _open_ends(found: theory.piecewise_affine.Partition) -> float:
    """How far the end of a cut is at most from the border or from a cut of an earlier layer.

    A boundary runs on across boundaries of its own layer; it may only bend at earlier ones.
    """
    worst = 0.0
    for layer in range(DEPTH):
        mine = found.cuts[found.by == layer].flatten(0, 1)
        walls = found.cuts[found.by <= layer]
        for end in mine:
            border = float((1 - end.abs()).abs().min())
            others = walls[((walls - end).norm(dim=2) > 1e-9).all(1)]
            a, b = others[:, 0], others[:, 1]
            t = ((end - a) * (b - a)).sum(1) / (b - a).square().sum(1)
            off = (a + t.clamp(0, 1)[:, None] * (b - a) - end).norm(dim=1)
            joined = int(((walls - end).norm(dim=2) < 1e-9).any(1).sum())  # ends that meet here
            least = 0.0 if joined >= 2 else min(border, float(off.min()) if len(off) else border)
            worst = max(worst, least)
    return worst


def plot(rows: list[Row], canvas: Any) -> None:
    """The cuts of some networks, coloured by layer."""
    panels = canvas.subplots(2, 3).flatten()
    for axes, r in zip(panels, rows, strict=False):
        for layer in reversed(range(DEPTH)):
            for (x0, y0), (x1, y1) in (
                c for c, k in zip(r["cuts"], r["by"], strict=True) if k == layer
            ):
                axes.plot([x0, x1], [y0, y1], color=f"C{layer}", lw=2 - 0.5 * layer)
        axes.set(title=f"{r['counts']} regions", aspect="equal", xlim=(-1, 1), ylim=(-1, 1))


def claims(rows: list[Row], _: Config) -> Iterator[Claim]:
    """Three lines make up to seven regions; later layers cut those along broken lines."""
    first = [r["counts"][0] for r in rows]
    yield Claim(
        "the first layer makes at most 7 regions, and 7 somewhere",
        f"{min(first)} to {max(first)}",
        max(first) == 7,
    )
    off = max(abs(r["area"] - 4) for r in rows)
    yield Claim("the polygons tile the square", f"areas off by {off:.0e}", off < 1e-10)
    missed = [(r["seen"], r["counts"][-1]) for r in rows]
    yield Claim(
        "a fine grid sees no more patterns than there are regions, and most of them",
        ", ".join(f"{a} of {b}" for a, b in missed[:6]),
        all(0.8 * b <= a <= b for a, b in missed),
    )
    ends = max(r["open ends"] for r in rows)
    yield Claim("no boundary ends in the open", f"at most {ends:.0e} off another", ends < 1e-8)


FIG3 = Figure(
    "riedi2022/fig3",
    "The plane cut by three layers of three units, as exact polygons.",
    0.2,
    {"networks": 20, "points": 1001},
    {"networks": 20, "points": 301},
    tasks,
    row,
    plot,
    claims,
    "One network of three layers of three units: the same here, of 20.",
)
