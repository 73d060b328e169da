"""Figure 1: the loss around a trained network, with and without skip connections."""

import copy
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from torch.nn import functional as F

from sigmascope import theory
from sigmascope.models import networks
from sigmascope_experiments.figures import Claim, Config, Figure, Row, Task, generator_of, only_if
from sigmascope_experiments.seeds import at_least
from sigmascope_experiments.training import CPU, epoch, split

KINDS = {"ResNet": 1.0, "ConvNet": 0.0}  # strength of the skip connections
OPTIONAL = ("test", "width", "batch", "momentum", "decay", "drops")  # of the sizes
PROBE = 128  # images on which the loss is drawn


def tasks(config: Config) -> list[Task]:
    """Each kind, depth and seed."""
    kept = {k: config[k] for k in ("data", "samples", "epochs", "points")}
    kept |= {k: config[k] for k in OPTIONAL if k in config}
    rates = config.get("rates", {})
    return [
        {
            **kept,
            "rate": rates.get(kind, config["rate"]),
            "kind": kind,
            "depth": depth,
            "seed": seed,
        }
        for depth in config["depths"]
        for seed in range(config["seeds"])
        for kind in KINDS
    ]


def row(task: Task, folder: Path | None, *, device: torch.device = CPU) -> Row:
    """Train, then the loss on one plane, normalised by the batch and by running statistics."""
    data = split(task["data"], task["samples"], folder, test=task.get("test")).to(device)
    start = generator_of({"seed": task["seed"], "depth": task["depth"]})  # the same for both kinds
    model = networks.resnet(
        inputs=tuple(data.x.shape[1:]),
        outputs=10,
        depth=task["depth"],
        width=task.get("width", 8),
        residual=KINDS[task["kind"]],
        generator=start,
    ).to(device)
    momentum = task.get("momentum", 0.0)
    optimizer = torch.optim.SGD(
        model.parameters(),
        lr=task["rate"],
        momentum=momentum,
        nesterov=momentum > 0,
        weight_decay=task.get("decay", 0.0),
    )
    schedule = torch.optim.lr_scheduler.MultiStepLR(optimizer, task.get("drops", []))
    curve: list[tuple[float, float]] = []
    for _ in range(task["epochs"]):
        batch = task.get("batch", 64)
        curve.append(epoch(model, data, optimizer, batch=batch, generator=start))
        schedule.step()
    found: Row = {"loss": curve[-1][0], "accuracy": curve[-1][1]}
    for name, training in (("batch", True), ("running", False)):
        surface = theory.landscape.loss_surface(
            model.train(training),
            data.x[:PROBE],
            targets=data.y[:PROBE],
            loss=F.cross_entropy,
            points=task["points"],
            generator=generator_of({"plane": task["seed"]}),
        )
        with torch.no_grad():
            own = float(F.cross_entropy(copy.deepcopy(model)(data.x[:PROBE]), data.y[:PROBE]))
        found |= {name: surface.losses.tolist(), "axis": surface.xs.tolist(), f"own {name}": own}
    return found


def concave(losses: list[list[float]]) -> float:
    """Share of second differences along the axes that are negative."""
    L = torch.tensor(losses, dtype=torch.float64)
    bends = [L[:, 2:] - 2 * L[:, 1:-1] + L[:, :-2], L[2:] - 2 * L[1:-1] + L[:-2]]
    return float((torch.cat([b.flatten() for b in bends]) < 0).double().mean())


def rise(losses: list[list[float]]) -> float:
    """Decades from the least to the largest loss on the plane."""
    L = torch.tensor(losses, dtype=torch.float64)
    return math.log10(float(L.max() / L.min()))


def plot(rows: list[Row], canvas: Any) -> None:
    """The first seed of each kind and depth, with the statistics of the batch."""
    first = [r for r in rows if r["task"]["seed"] == 0]
    panels = canvas.subplots(2, max(1, (len(first) + 1) // 2), squeeze=False).T.flatten()
    for axes, r in zip(panels, first, strict=False):
        drawn = axes.contourf(r["axis"], r["axis"], r["batch"], levels=20)
        canvas.colorbar(drawn, ax=axes)
        axes.set(title=f"{r['task']['kind']}, depth {r['task']['depth']}", aspect="equal")


def claims(rows: list[Row], config: Config) -> Iterator[Claim]:
    """With skip connections training gets further, and the surroundings are calmer.

    The middle of every plane is the loss of the network itself.
    """
    middle = [
        (r[name][len(r[name]) // 2][len(r[name]) // 2], r[f"own {name}"])
        for r in rows
        for name in ("batch", "running")
    ]
    off = max(abs(a - b) / abs(b) for a, b in middle)
    says = "the middle of every plane is the loss of the network itself"
    yield Claim(says, f"{off:.1e} of it off at most", off < 1e-4)
    says = (
        "the ResNet reaches a lower loss",
        "the loss rises by fewer decades around the ResNet",
        "less of the surface around the ResNet is concave along the axes",
    )
    why = "networks are trained too briefly, on too few images, and drawn at too few points"
    yield from only_if(config["tell"], why, says, _against(rows, config))


def _against(rows: list[Row], config: Config) -> Iterator[Claim]:
    by = {(r["task"]["depth"], r["task"]["seed"], r["task"]["kind"]): r for r in rows}
    for depth in config["depths"]:
        pairs = [[by[depth, seed, kind] for kind in KINDS] for seed in range(config["seeds"])]
        for says, value in (
            ("the ResNet reaches a lower loss", lambda r: r["loss"]),
            ("the loss rises by fewer decades around the ResNet", lambda r: rise(r["running"])),
            (
                "less of the surface around the ResNet is concave along the axes",
                lambda r: concave(r["batch"]),
            ),
        ):
            plain, skipping = ([value(pair[i]) for pair in pairs] for i in (1, 0))
            yield at_least(f"depth {depth}: {says}", plain, skipping)


FIG1 = Figure(
    "riedi2022/fig1",
    "The loss around trained networks with and without skip connections, Fashion-MNIST, ResNets "
    "of width 8 and depth 20 and 32 with BatchNorm (1000 images and 10 epochs).",
    14,
    {
        "data": "fashion-mnist",
        "samples": 1000,
        "epochs": 10,
        "rate": 0.1,
        "points": 15,
        "depths": [20, 32],
        "seeds": 5,
        "tell": True,
    },
    {
        "data": "digits",
        "samples": 96,
        "epochs": 1,
        "rate": 0.1,
        "points": 3,
        "depths": [8],
        "seeds": 1,
        "tell": False,
    },
    tasks,
    row,
    plot,
    claims,
    "The picture is that of Li et al. 2018, and the paper states nothing of it: there CIFAR-10, "
    "ResNet-56 of width 16 with and without skip connections, 300 epochs of SGD in batches of 128 "
    "with Nesterov momentum 0.9 and weight decay 0.0005, from rate 0.1, or 0.01 without skip "
    "connections, a tenth from epochs 150, 225 and 275 on, 51 x 51 points. Chosen here: 3 seeds, "
    f"the loss on {PROBE} images, no augmentation.",
    {
        "data": "cifar10",
        "samples": 50_000,
        "test": 10_000,
        "epochs": 300,
        "rate": 0.1,
        "rates": {"ConvNet": 0.01},
        "momentum": 0.9,
        "decay": 0.0005,
        "drops": [150, 225, 275],
        "batch": 128,
        "width": 16,
        "points": 51,
        "depths": [56],
        "seeds": 3,
        "tell": True,
    },
    on_device=True,
)
