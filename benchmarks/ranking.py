"""Does `rank` order designs as full training does?

python -m benchmarks.ranking --out FOLDER              # every stage, resumable; an hour
python -m benchmarks.ranking --out FOLDER --fit        # then the coefficients, from scratch
python -m benchmarks.ranking --out FOLDER --table      # what was found, and the kept table

Designs are those of `trainability.py`, whose kept table says what their training reached. There it
ended at a score of 0.9, which tells who trains but not who trains best: `ends` trains cheap designs
that reached 0.9 again, to the end. `probes` takes what the first steps show; `groups` ranks groups
of eight held-out designs as a user does, with the halving. Fashion-MNIST is read from
`$SIGMASCOPE_DATA`.
"""

import argparse
import csv
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from benchmarks._designs import Design, drawn
from benchmarks._ranked import GROUP, report, weights
from benchmarks._trainable import TABLE as KNOWN
from benchmarks._truth import ENOUGH, best_score, loss_of
from benchmarks.trainability import FITTED, HELD_OUT, MEASURED, opened, read
from sigmascope import diagnosis
from sigmascope.diagnosis import trainability
from sigmascope.diagnosis.trainability import (
    EarlyTraining,
    ScoreModel,
    TrainabilityModel,
    fit_scores,
)

KEPT = Path(trainability.__file__).with_name("scores.json")
TABLE = Path(__file__).with_name("ranking.csv")
STAGES = ("probes", "ends", "groups")
GROUPS = 16
Row = dict[str, Any]


def shown(seed: int) -> Row:
    """What the first steps show, and what a plain look at them says."""
    found = diagnosis.ranking.looked(entry(seed)).seen()
    return {**row_of(found), "constant score": constant_score(opened(seed)[2])}


def entry(seed: int) -> diagnosis.ranking.Entry:
    """A design as `rank` takes it."""
    design, x, y, make = opened(seed)
    fields = (x[:MEASURED], y[:MEASURED], loss_of(y), design.optimizer)
    return diagnosis.ranking.Entry(str(seed), make(), *fields)


def constant_score(y: Tensor) -> float:
    """Of the best constant output: the share of the most frequent class, or nothing explained."""
    return 0.0 if y.is_floating_point() else torch.bincount(y).max().item() / len(y)


def row_of(found: EarlyTraining) -> Row:
    """Features, and the best of the loss and of the score itself."""
    far = max((s for c in found.curves for s in c.reached(found.constant)), default=0.0)
    return {**found.features(), "best score": far, "loss left": found.left}


def end(seed: int) -> Row:
    """What training reaches if it is not stopped at 0.9."""
    design, x, y, make = opened(seed)
    return {"end": best_score(make, design.optimizer, x, y, enough=1.0)}


def group(number: int) -> Row:
    """Eight held-out designs of known end, as `rank` orders them."""
    g = torch.Generator().manual_seed(number)
    seeds = [HELD_OUT[int(i)] for i in torch.randperm(len(HELD_OUT), generator=g)[:GROUP]]
    entries = [entry(seed) for seed in seeds]
    ranked = diagnosis.ranking.ranked_entries(entries, passes=60, budget=None)
    return {"order": [int(r.name) for r in ranked], "passes": [r.passes for r in ranked]}


def is_cheap(design: Design) -> bool:
    """Whether 1200 steps take seconds."""
    if design.family in ("mlp", "residual-mlp"):
        return design.depth <= 16
    if design.family in ("conv", "residual-conv"):
        return design.depth <= 4 and design.width <= 32
    return design.depth <= (1 if design.family == "rnn" else 2)


def wanted(stage: str) -> list[int]:
    """Seeds of a stage."""
    if stage == "probes":
        return [*HELD_OUT, *FITTED]
    if stage == "groups":
        return [*range(GROUPS)]
    known = kept()
    good = [s for s in (*HELD_OUT, *FITTED) if known[s]["score"] >= ENOUGH]
    return [s for s in good if is_cheap(drawn(s, held_out=s in HELD_OUT))]


def run(stage: str, folder: Path) -> None:
    """One stage for every seed that is not in its file yet."""
    work: Callable[[int], Row] = {"probes": shown, "ends": end, "groups": group}[stage]
    file = folder / f"ranking-{stage}.jsonl"
    known = read(file)
    with file.open("a", encoding="utf-8") as out:
        for seed in wanted(stage):
            if seed not in known:
                out.write(json.dumps({"seed": seed, **work(seed)}) + "\n")
                out.flush()


def kept() -> dict[int, Row]:
    """The kept table of `trainability.py`, by seed."""
    with KNOWN.open(encoding="utf-8", newline="") as file:
        rows = {int(row["seed"]): dict(row) for row in csv.DictReader(file)}
    return {s: {**row, "score": float(row["score"])} for s, row in rows.items()}


def joined(folder: Path) -> list[Row]:
    """Designs with their probes and ends, as shares of the way from a constant output.

    Those below 0.9 were trained to the end before.
    """
    probes, ends = (read(folder / f"ranking-{stage}.jsonl") for stage in ("probes", "ends"))
    rows = []
    for seed, row in kept().items():
        if seed in probes:
            known = {k: row[k] for k in ("family", "data", "optimizer", "score")}
            last = row["score"] if row["score"] < ENOUGH else ends.get(seed, {}).get("end")
            least = probes[seed]["constant score"]
            share = None if last is None else max(0.0, (last - least) / (1 - least))
            rows.append({**probes[seed], **known, "end": share})
    return rows


def fit(folder: Path) -> None:
    """Write the coefficients that the library reads, from the training set alone."""
    rows = [r for r in joined(folder) if r["seed"] in FITTED]
    each = [(r, w) for r, w in zip(rows, weights(rows), strict=True) if w]
    model = fit_scores(
        [{"reached": r["reached"]} for r, _ in each],
        [r["end"] for r, _ in each],
        weights=[w for _, w in each],
    )
    model.save(KEPT)
    print(model)


def table(folder: Path) -> None:
    """Keep the rows, and say how well each way of ordering does."""
    rows = joined(folder)
    chance = TrainabilityModel.read(KEPT.with_name("trainability.json"))
    for row in rows:
        told = ScoreModel.read(KEPT).forecast(row)
        row |= {"forecast": told.value, "low": told.low, "high": told.high}
        row["probability"] = chance.probability(row).value
    with TABLE.open("w", encoding="utf-8", newline="") as out:
        writer = csv.DictWriter(out, list(rows[0]), lineterminator="\n")
        writer.writeheader()
        for row in rows:
            writer.writerow({k: f"{v:.6g}" if isinstance(v, float) else v for k, v in row.items()})
    report([r for r in rows if r["seed"] in HELD_OUT], read(folder / "ranking-groups.jsonl"))


if __name__ == "__main__":
    options = argparse.ArgumentParser()
    options.add_argument("--out", type=Path, required=True)
    options.add_argument("--stage", choices=STAGES)
    options.add_argument("--fit", action="store_true")
    options.add_argument("--table", action="store_true")
    given = options.parse_args()
    given.out.mkdir(parents=True, exist_ok=True)
    if given.fit:
        fit(given.out)
    elif given.table:
        table(given.out)
    else:
        for name in (given.stage,) if given.stage else STAGES:
            run(name, given.out)
