"""Are learning curves foretold, and do nine intervals of ten hold what comes?

python -m benchmarks.forecasts --out FOLDER            # train the curves, resumable; half an hour
python -m benchmarks.forecasts --out FOLDER --fit      # then the coefficients, from scratch
python -m benchmarks.forecasts --out FOLDER --table    # coverage and width; the kept table

Random designs of `_designs.py`, of at most four layers, trained with minibatches of 32, 64 or 128
of 512 samples, or with all of 128, at a rate between a hundredth and a hundred times a usual one;
for 1200 steps, convolutional networks and transformers for 400. The held-out curves are in part of
other families, activations and data sets than the fitted ones.
What is foretold is the mean loss of the last twentieth of the planned steps, from the losses of 20
to 120 steps. Fashion-MNIST is read from `$SIGMASCOPE_DATA`.
"""

import argparse
import csv
import json
import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import zip_longest
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from benchmarks._designs import SAMPLES, Design, built, drawn, task
from benchmarks._truth import loss_of
from sigmascope.diagnosis import trainability
from sigmascope.diagnosis.trainability import (
    Example,
    ForecastModel,
    fit_forecasts,
    forecast,
    optimizer_of,
)

FITTED, HELD_OUT = range(20_000, 20_170), range(30_000, 30_200)
STEPS, DEAR, DEEPEST, WIDEST = 1200, 400, 4, 32
BATCHES = (32, 64, 128, SAMPLES)
FULL = 128  # samples where all are in every batch
USUAL = {"sgd": 3e-2, "adam": 1e-3}
KNOWN = (20, 120)  # steps that are given, from and to
LAST = 20  # the end is the mean of the last twentieth of the planned steps
EACH = 4  # pairs of known and planned steps, of every curve
KEPT = Path(trainability.__file__).with_name("forecasts.json")
TABLE = Path(__file__).with_name("forecasts.csv")
Row = dict[str, Any]


def curve(seed: int) -> Row:
    """The losses of one training."""
    design, batch, rate = configuration(seed)
    x, y = task(design)
    if batch == SAMPLES:
        x, y = x[:FULL], y[:FULL]
    model = built(design, x.shape[1], y.shape[1] if y.ndim > 1 else 10)
    by = optimizer_of([*model.parameters()], design.optimizer, rate)
    g, losses, value_of = torch.Generator().manual_seed(seed), [], loss_of(y)
    cheap = design.family in ("mlp", "residual-mlp", "rnn")
    for _ in range(STEPS if cheap else DEAR):
        rows = torch.randperm(len(x), generator=g)[:batch]
        by.zero_grad()
        value = value_of(model(x[rows]), y[rows])
        losses.append(float(f"{value.item():.6g}"))
        if not math.isfinite(losses[-1]):
            break
        value.backward()
        by.step()
    return {"seed": seed, "constant": constant_of(y), "losses": losses}


def configuration(seed: int) -> tuple[Design, int, float]:
    """Design, samples in a batch, and learning rate."""
    design = drawn(seed, held_out=seed >= HELD_OUT.start)
    design = replace(design, depth=min(design.depth, DEEPEST), width=min(design.width, WIDEST))
    g = torch.Generator().manual_seed(seed + 1)
    batch = BATCHES[int(torch.randint(len(BATCHES), (), generator=g))]
    tens = 4 * float(torch.rand((), generator=g)) - 2
    return design, batch, USUAL[design.optimizer] * 10**tens


def constant_of(y: Tensor) -> float:
    """Loss of the best constant output."""
    if y.is_floating_point():
        return float((y - y.mean(0)).square().mean())
    share = torch.bincount(y).double() / len(y)
    return float(torch.special.entr(share).sum())


def train(folder: Path) -> None:
    """Every curve that is not in the file yet."""
    file = folder / "curves.jsonl"
    known = read(file)
    every = [s for pair in zip_longest(HELD_OUT, FITTED) for s in pair if s is not None]
    torch.set_num_threads(1)
    with file.open("a", encoding="utf-8") as out:
        for seed in every:
            if seed not in known:
                out.write(json.dumps(curve(seed)) + "\n")
                out.flush()


def read(file: Path) -> dict[int, Row]:
    """Curves by seed; a last line that was cut is left out."""
    if not file.exists():
        return {}
    lines = file.read_text(encoding="utf-8").splitlines()
    return {row["seed"]: row for row in (json.loads(s) for s in lines if s.endswith("}"))}


def examples(row: Row) -> Iterator[Example]:
    """Some pairs of known and planned steps of a curve; where it failed later, it reaches inf."""
    g = torch.Generator().manual_seed(row["seed"] + 2)
    design, *_ = configuration(row["seed"])
    kinds = (design.family, design.data, design.activation)
    losses, failed = row["losses"], not math.isfinite(row["losses"][-1])
    for _ in range(EACH):
        known = _between(*KNOWN, g)
        planned = _between(known + 1, STEPS if failed else len(losses), g)
        if known < len(losses):
            last = losses[planned - max(1, planned // LAST) : planned]
            reached = (
                math.fsum(last) / len(last) if planned < len(losses) or not failed else math.inf
            )
            yield Example(tuple(losses[:known]), planned, row["constant"], reached, kinds)


def _between(low: int, high: int, g: torch.Generator) -> int:
    """A whole number, its logarithm evenly spread."""
    return round(low * (high / low) ** float(torch.rand((), generator=g)))


def fit(folder: Path) -> ForecastModel:
    """Write the coefficients that the library reads, from the curves to be fitted alone."""
    rows = read(folder / "curves.jsonl")
    every = [e for seed in FITTED if seed in rows for e in examples(rows[seed])]
    model = fit_forecasts(every)
    model.save(KEPT)
    print(model.drift, model.below, model.above, model.trained)
    return model


def table(folder: Path) -> None:
    """Foretell every curve, keep that as a table, and say how right it was."""
    rows = read(folder / "curves.jsonl")
    judged = [row for seed in (*FITTED, *HELD_OUT) if seed in rows for row in judge(rows[seed])]
    with TABLE.open("w", encoding="utf-8", newline="") as out:
        writer = csv.DictWriter(out, list(judged[0]), lineterminator="\n")
        writer.writeheader()
        for row in judged:
            short = {k: f"{v:.6g}" for k, v in row.items() if isinstance(v, float)}
            writer.writerow({**row, **short})
    report([row for row in judged if row["seed"] in HELD_OUT])


def judge(row: Row) -> Iterator[Row]:
    """What was foretold of a curve, beside what came."""
    design, batch, rate = configuration(row["seed"])
    names = ("family", "depth", "width", "activation", "norm", "data", "optimizer", "seed")
    about = {name: getattr(design, name) for name in names} | {"batch": batch, "rate": rate}
    for e in examples(row):
        told = forecast(e.losses, e.planned, constant=e.constant)
        ends = {"low": told.low, "value": told.value, "high": told.high}
        steps = {"known": len(e.losses), "planned": e.planned, "constant": e.constant}
        yield {**about, **steps, **ends, "reached": e.reached, **_plain(e)}


def _plain(e: Example) -> dict[str, float]:
    """What one would say without a model: the last losses, or their line in two logarithms."""
    n = len(e.losses)
    last = float(np.mean(e.losses[-max(2, n // 10) :]))
    steps, losses = np.arange(1, n + 1)[n // 2 :], np.array(e.losses[n // 2 :])
    slope = np.polyfit(np.log(steps), np.log(np.clip(losses / e.constant, 1e-6, 1e6)), 1)[0]
    return {"last": last, "power law": last * (e.planned / n) ** float(slope)}


def report(rows: Sequence[Row]) -> None:
    """Coverage, width and error of the forecasts, and of two plain ones; JSON on the last line."""
    says = {"curves": len({r["seed"] for r in rows}), **_said(rows)}
    for name, value in says.items():
        print(f"{name}: {value}")
    for factor in ("family", "data", "activation", "optimizer", "batch"):
        for value in sorted({r[factor] for r in rows}):
            print(f"  {factor} {value}: {_said([r for r in rows if r[factor] == value])}")
    print(json.dumps(says))


def _said(rows: Sequence[Row]) -> dict[str, Any]:
    """Of intervals, and of the median error as a factor: 1.2 is off by a fifth either way."""
    held = np.array([r["low"] <= r["reached"] <= r["high"] for r in rows])
    logs = {
        name: np.log([min(max(r[name] / r["constant"], 1e-6), 1e6) for r in rows])
        for name in ("low", "value", "high", "reached", "last", "power law")
    }
    off = lambda name: float(np.exp(np.median(np.abs(logs[name] - logs["reached"]))))
    mean = lambda name: float(np.abs(logs[name] - logs["reached"]).mean())
    return {
        "forecasts": len(rows),
        "covered": round(float(held.mean()), 4),
        "too low": round(float(np.mean([r["reached"] > r["high"] for r in rows])), 4),
        "width, median factor": round(float(np.exp(np.median(logs["high"] - logs["low"]))), 3),
        "width, mean logarithm": round(float((logs["high"] - logs["low"]).mean()), 3),
        "off by": {n: round(off(n), 3) for n in ("value", "last", "power law")},
        "mean error, logarithm": {n: round(mean(n), 3) for n in ("value", "last", "power law")},
    }


if __name__ == "__main__":
    options = argparse.ArgumentParser()
    options.add_argument("--out", type=Path, required=True)
    options.add_argument("--fit", action="store_true")
    options.add_argument("--table", action="store_true")
    given = options.parse_args()
    given.out.mkdir(parents=True, exist_ok=True)
    if given.fit:
        fit(given.out)
    elif given.table:
        table(given.out)
    else:
        train(given.out)
