"""Linear tails driven to rank one: four networks, trained to tiny losses."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch

from sigmascope.models import Subject
from sigmascope.theory import le2022
from sigmascope_experiments.figures import Claim, Config, Figure, Row, Task, only_if
from sigmascope_experiments.le2022.nets import KINDS, descend, logistic, separable, tailed

PACE = {"convolutions": 0.02}  # 0.05 was unstable
LEAST = {KINDS[0]: 0.95, KINDS[1]: 0.95, KINDS[2]: 0.9}  # of the ratios at full size


def tasks(config: Config) -> list[Task]:
    """Every network from every start."""
    return [
        {"net": kind, "seed": seed, "steps": config["steps"]}
        for kind in KINDS
        for seed in range(config["seeds"])
    ]


def row(task: Task, _: Path | None) -> Row:
    """Ratios and alignments on the way, drift, and how near (13) came to fail."""
    kind = task["net"]
    net = tailed(kind, task["seed"])
    x, y = separable(kind, task["seed"])
    subject = Subject(net, x)
    start = le2022.LinearTail.of(subject)
    assert start is not None
    balances = [_balance(start, j) for j in range(len(start.layers))]
    first = le2022.rank_one_bound(start.layers, start.last)
    ledger = le2022.conservation.Ledger(net, le2022.conservation.invariants(net, x))
    looks, budget = [], 0.0
    at = {round(1.25**k) for k in range(60)}
    walk = descend(
        net, lambda: logistic(net, x, y), steps=task["steps"], rate=0.2, pace=PACE.get(kind, 0.2)
    )
    for step, loss, optimizer in walk:
        if step == 0:
            ledger.watching(optimizer)
        if step in at:
            looks.append(_look(net, x, step, loss, first, balances, budget))
        grads = [p.grad for p in net.parameters() if p.grad is not None]
        rate = optimizer.param_groups[0]["lr"]
        budget += rate**2 * sum(float(g.square().sum()) for g in grads)
    with torch.no_grad():
        end = float(logistic(net, x, y))
    looks.append(_look(net, x, 2 * task["steps"], end, first, balances, budget))
    ledger.close()
    drifts = [d for d in ledger.drifts() if d.invariant.kind == "matrix"]
    return {
        "looks": looks,
        "S": [b.S for b in first],
        "drift": max(d.drift for d in drifts),
        "residual": max(d.residual for d in drifts),
        "verdicts": sorted({str(d.verdict) for d in drifts}),
        "budget": budget,
        "accuracy": float((net(x).flatten().sign() == y).double().mean()),
    }


def _balance(tail: le2022.LinearTail, j: int) -> torch.Tensor:
    layer = tail.layers[j]
    last = tail.last.reshape(len(tail.layers[-1].outer), -1).mT
    above = tail.layers[j + 1].inner if j + 1 < len(tail.layers) else last
    return above.mT @ above - layer.outer @ layer.outer.mT


def _look(
    net: torch.nn.Module,
    x: torch.Tensor,
    step: int,
    loss: float,
    first: tuple[le2022.RankOneBound, ...],
    balances: list[torch.Tensor],
    budget: float,
) -> dict[str, Any]:
    """Ratios, alignments, and the margin of (13) with the constants of the start."""
    subject = Subject(net, x)
    tail = le2022.LinearTail.of(subject)
    assert tail is not None
    now = le2022.rank_one_bound(tail.layers, tail.last)
    layers = len(tail.layers) + 1
    margins = [
        b.D.value + 2 * layers * b.S * budget - n.excess.value
        for b, n in zip(first, now, strict=True)
    ]
    pairs = [
        (pair.alignment.value, below, above)
        for below, above, pair in le2022.linear_pairs(subject)
        if not ("U.weight" in above and "Z" not in above)
    ]
    return {
        "step": step,
        "loss": loss,
        "ratios": [n.ratio for n in now],
        "rest": [n.frobenius.value - n.spectral.value for n in now],
        "alignments": [value for value, _, _ in pairs],
        "margin": min(margins),
    }


def plot(rows: list[Row], canvas: Any) -> None:
    """Ratios against the loss, a panel a network."""
    for axes, kind in zip(canvas.subplots(2, 2).flatten(), KINDS, strict=True):
        for r in (r for r in rows if r["task"]["net"] == kind):
            losses = [k["loss"] for k in r["looks"]]
            for layer in range(len(r["S"])):
                axes.plot(losses, [k["ratios"][layer] for k in r["looks"]], color=f"C{layer}")
        axes.set(xscale="log", title=kind, xlabel="loss", ylabel="‖W‖² / ‖W‖_F²", ylim=(0, 1))
        axes.invert_xaxis()


def claims(rows: list[Row], config: Config) -> Iterator[Claim]:
    """The acceptance lines of the reference experiment."""
    for kind in KINDS:
        mine = [r for r in rows if r["task"]["net"] == kind]
        margin = min(k["margin"] for r in mine for k in r["looks"])
        says = f"(13) is never violated: {kind}"
        yield Claim(says, f"least margin {margin:.3g}", margin >= -1e-9)
        drift, residual = (max(r[key] for r in mine) for key in ("drift", "residual"))
        yield Claim(
            f"balances drift as their steps say, and by less than Σ η² ‖g‖²: {kind}",
            f"drift {drift:.1e}, residual {residual:.1e}",
            all(r["drift"] <= r["budget"] for r in mine)
            and residual < 1e-10
            and {v for r in mine for v in r["verdicts"]} == {"holds"},
        )
        says = (f"adjacent layers align: {kind}", f"layers end near rank one: {kind}")
        why = f"{config['steps']} steps of training are too few, 6000 are needed"
        yield from only_if(config["steps"] >= 6000, why, says, _ends(kind, mine))


def _ends(kind: str, mine: list[Row]) -> Iterator[Claim]:
    """What the ends of long runs show."""
    ends = [r["looks"][-1] for r in mine]
    found = f"{[[round(v, 4) for v in e['ratios']] for e in ends]}"
    aligned = min(min(e["alignments"]) for e in ends)
    yield Claim(f"adjacent layers align: {kind}", f"least {aligned:.5f}", aligned > 0.999)
    if kind in LEAST:
        least = min(min(e["ratios"]) for e in ends)
        yield Claim(f"all ratios end above {LEAST[kind]}: {kind}", found, least > LEAST[kind])
        return
    S = mine[0]["S"]
    yield Claim(
        "the dense layer comes near rank one, in most runs a convolution does not, though all "
        "align; none falls below its bound",
        f"{found}, bounds {[1 / s for s in S]}",
        all(e["ratios"][2] > 0.9 for e in ends)
        and sum(min(e["ratios"][:2]) < 0.9 for e in ends) >= 0.6 * len(ends)
        and all(v * s >= 1 for e in ends for v, s in zip(e["ratios"], S, strict=True) if s > 1),
    )


TAILS = Figure(
    "le2022/tails",
    "Rank one and alignment of the last linear layers of four networks, at losses to 1e-9.",
    4,
    {"steps": 6000, "seeds": 6},
    {"steps": 150, "seeds": 1},
    tasks,
    row,
    plot,
    claims,
    "The paper has no experiments, and so no size.",
)
