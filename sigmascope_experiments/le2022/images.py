"""A small AlexNet on two classes of images: which of its last layers come near rank one."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from sigmascope import models, theory
from sigmascope.theory import le2022
from sigmascope_experiments.figures import Claim, Config, Figure, Row, Task, only_if
from sigmascope_experiments.le2022.nets import descend, logistic
from sigmascope_experiments.training import split

TAILS = ("ReLU", "linear")  # between the last three dense layers
FRONT, BACK = 0.7, 0.2  # of He's spread: small enough to leave the start behind


def tasks(config: Config) -> list[Task]:
    """Both networks from every start."""
    keys = ("data", "samples", "steps")
    return [
        {"tail": tail, "seed": seed, **{k: config[k] for k in keys}}
        for tail in TAILS
        for seed in range(config["seeds"])
    ]


def alexnet(shape: tuple[int, ...], tail: str, seed: int) -> nn.Sequential:
    """Two convolutions with pooling, then three dense layers, without biases."""
    between = nn.ReLU if tail == "ReLU" else nn.Identity
    k = 5 if shape[1] > 12 else 3
    side = ((shape[1] - k + 1) // 2 - (k - 2) + 1) // 2
    net = nn.Sequential(
        nn.Conv2d(shape[0], 8, k, bias=False),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(8, 16, k - 2, bias=False),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(16 * side * side, 64, bias=False),
        between(),
        nn.Linear(64, 32, bias=False),
        between(),
        nn.Linear(32, 1, bias=False),
    )
    g = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for p in net.parameters():
            gain = FRONT if p.ndim > 2 else BACK
            p.copy_(gain * (2 / p[0].numel()) ** 0.5 * torch.randn(p.shape, generator=g))
    return net


def two_classes(task: Task, folder: Path | None) -> tuple[Tensor, Tensor]:
    """Images of the classes 0 and 1, with labels -1 and 1."""
    found = split(task["data"], 12 * task["samples"], folder)
    chosen = (found.y < 2).nonzero().flatten()[: task["samples"]]
    return found.x[chosen], found.y[chosen].float() * 2 - 1


def row(task: Task, folder: Path | None) -> Row:
    """Ratios of the dense layers on the way, and how the balances fared."""
    x, y = two_classes(task, folder)
    net = alexnet(tuple(x.shape[1:]), task["tail"], task["seed"])
    ledger = le2022.conservation.Ledger(net, le2022.conservation.invariants(net, x))
    looks: list[dict[str, Any]] = []
    at = {round(1.4**k) for k in range(40)}
    walk = descend(
        net, lambda: logistic(net, x, y), steps=task["steps"], rate=0.1, pace=0.1, most=1e3
    )
    for step, loss, optimizer in walk:
        if step == 0:
            ledger.watching(optimizer)
        if step in at or step == 2 * task["steps"] - 1:
            looks.append({"step": step, "loss": loss, "ratios": _ratios(net)})
    ledger.close()
    drifts = [d for d in ledger.drifts() if d.invariant.kind != "pair"]
    pairs = le2022.linear_pairs(models.Subject(net, x[:16]))
    return {
        "looks": looks,
        "verdicts": sorted({str(d.verdict) for d in drifts}),
        "alignments": [pair.alignment.value for _, _, pair in pairs],
        "accuracy": float((net(x).flatten().sign() == y).double().mean()),
    }


def _ratios(net: nn.Module) -> list[float]:
    """Of the first two dense layers; the last is a row, always of rank one."""
    readings = theory.compare(dict(net.state_dict()), dict(net.state_dict())).changes
    found = [c for c in readings if c.quantity == "operator-to-Frobenius ratio"]
    return [c.after.value for c in found][-2:]


def plot(rows: list[Row], canvas: Any) -> None:
    """Ratios against the loss, a panel a network."""
    for axes, tail in zip(canvas.subplots(1, 2, sharey=True), TAILS, strict=True):
        for r in (r for r in rows if r["task"]["tail"] == tail):
            losses = [k["loss"] for k in r["looks"]]
            for layer in range(2):
                axes.plot(losses, [k["ratios"][layer] for k in r["looks"]], color=f"C{layer}")
        axes.set(xscale="log", title=f"{tail} between", xlabel="loss", ylim=(0, 1))
        axes.invert_xaxis()


def claims(rows: list[Row], config: Config) -> Iterator[Claim]:
    """Ratios rise; with linear maps between, the later layer comes nearer to rank one."""
    ends = {
        tail: [r["looks"][-1]["ratios"] for r in rows if r["task"]["tail"] == tail]
        for tail in TAILS
    }
    said = "; ".join(
        f"{tail} {', '.join(f'{a:.3f} {b:.3f}' for a, b in many)}" for tail, many in ends.items()
    )
    yield Claim(
        "the balances of single channels and neurons hold",
        ", ".join(sorted({v for r in rows for v in r["verdicts"]})),
        {v for r in rows for v in r["verdicts"]} == {"holds"},
    )
    says = (
        "training drives both layers towards rank one in every run",
        "linear neighbours align",
        "a layer stays away from rank one in every run",
    )
    why = f"{config['steps']} steps of training are too few, 1000 are needed"
    yield from only_if(config["steps"] >= 1000, why, says, _ends(rows, ends, said))


def _ends(rows: list[Row], ends: dict[str, Any], said: str) -> Iterator[Claim]:
    """What the ends of long runs show."""
    starts = [r["looks"][0]["ratios"] for r in rows]
    yield Claim(
        "training drives both layers towards rank one in every run",
        said,
        all(
            min(e) > max(s) for e, s in zip([*ends[TAILS[0]], *ends[TAILS[1]]], starts, strict=True)
        ),
    )
    aligned = [a for r in rows for a in r["alignments"]]
    yield Claim(
        "linear neighbours align",
        f"least {min(aligned):.4f}",
        min(aligned) > 0.99,
    )
    yield Claim(
        "a layer stays away from rank one in every run, at losses below 1e-7: reduced alignment",
        f"losses up to {max(r['looks'][-1]['loss'] for r in rows):.0e}; {said}",
        all(min(e) < 0.9 for many in ends.values() for e in many)
        and all(r["looks"][-1]["loss"] < 1e-7 for r in rows),
    )


IMAGES = Figure(
    "le2022/images",
    "Rank of the last dense layers of a small AlexNet on two classes (200 images, full batch).",
    8,
    {"data": "cifar10", "samples": 200, "steps": 1500, "seeds": 3},
    {"data": "digits", "samples": 24, "steps": 20, "seeds": 1},
    tasks,
    row,
    plot,
    claims,
    "The paper has no experiments, and so no size.",
)
