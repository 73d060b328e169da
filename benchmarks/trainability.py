"""Does the diagnosis hold: which networks train, why not, and what cures them?

python -m benchmarks.trainability --out FOLDER --workers 2    # every stage, resumable; 2 hours
python -m benchmarks.trainability --out FOLDER --fit          # then the coefficients, from scratch
python -m benchmarks.trainability --out FOLDER --table        # what was found, and the kept table

Random designs of sixteen factors (`_designs.py`); families, activations, data sets and depths of
the held-out set are in part not in the training set. A second generator (`_other_designs.py`)
shares nothing with it: seven of its families are fitted to as well, nine others are reported alone.
Truth (`_truth.py`): the best training accuracy, or explained variance, of any of four rates in 1200
steps; a network fits at one half.
Stages: `truth` trains; `probes` takes the features; `findings` is what a user is told
(`diagnosis.assess`); `cures` applies, to held-out networks that do not fit, the three remedies that
rank first, and trains each result. Coefficients must be fitted between `probes` and `findings`.
Fashion-MNIST is read from `$SIGMASCOPE_DATA`. `--ray` shares the work on Ray.
"""

import argparse
import csv
import json
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, fields
from functools import partial
from itertools import zip_longest
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from benchmarks import _other_designs as others
from benchmarks._designs import Design, built, drawn, task
from benchmarks._trainable import OTHERS, TABLE, report, report_others
from benchmarks._truth import ENOUGH, FITS, best_score, loss_of
from sigmascope import diagnosis

FITTED, HELD_OUT = range(446), range(10_000, 10_640)
MORE, UNSEEN = range(20_000, 20_150), range(30_000, 30_400)  # of the second generator
KEPT = Path(diagnosis.trainability.__file__).with_name("trainability.json")
OVER = 0.6  # a score at which training of these may stop: they fit
MEASURED = 256  # samples, of 512; remedies work with the others
REMEDIES = 3  # that are trained
STAGES = ("truth", "probes", "findings", "cures")
FEATURES = ("progress", "reached", "underway")


def truth(seed: int) -> dict[str, Any]:
    """What training reaches."""
    design, x, y, make = opened(seed)
    enough = OVER if seed >= MORE.start else ENOUGH
    return {"score": best_score(make, design.optimizer, x, y, enough=enough)}


def probes(seed: int) -> dict[str, Any]:
    """What the first steps show, in numbers."""
    return probed(seed).features()


def probed(seed: int) -> diagnosis.trainability.EarlyTraining:
    """What the first steps show."""
    design, x, y, make = opened(seed)
    return diagnosis.trainability.probe(
        make(),
        x[:MEASURED],
        targets=y[:MEASURED],
        loss=loss_of(y),
        optimizer=design.optimizer,
    )


def findings(seed: int) -> dict[str, Any]:
    """What a user is told before training."""
    design, x, y, make = opened(seed)
    measured = diagnosis.assess(make(), x[:MEASURED], budget=None, **_options(design, y))
    chance = diagnosis.trainability.probability(measured)
    assert chance is not None
    return {
        "probability": chance.estimate.value,
        "findings": [(f.name, f.severity, f.follows) for f in diagnosis.judge(measured)],
        "ratio": diagnosis.last_ratio(measured),
    }


def cures(seed: int) -> dict[str, Any]:
    """What training reaches after each of the three remedies that rank first."""
    design, x, y, make = opened(seed)
    # the probability ranks; of the findings that tell equals apart, one view is enough
    options: dict[str, Any] = {**_options(design, y), "views": ["setup"]}
    found, _ = diagnosis.trial(make(), x[:MEASURED], batches=x[MEASURED:], budget=None, **options)
    scores = []
    for t in found[:REMEDIES]:
        again = partial(_again, t.remedy, make, x[MEASURED:])
        scores.append((t.remedy.name, best_score(again, design.optimizer, x, y)))
        if scores[-1][1] >= FITS:
            break  # cured: the rest would not change what is counted
    return {"cures": scores}


def _again(
    remedy: diagnosis.remedies.Remedy, make: Callable[[], nn.Module], batches: Tensor
) -> nn.Module:
    return remedy.apply(make(), batches)


def opened(
    seed: int,
) -> tuple[Design | others.Other, Tensor, Tensor, Callable[[], nn.Module]]:
    """Design, inputs, targets, and what makes the network."""
    torch.set_num_threads(1)
    for seeds, families in ((MORE, others.FITTED), (UNSEEN, others.REPORTED)):
        if seed in seeds:
            other = others.other(seed - seeds.start, families)
            x, y = others.task_of(other)
            return other, x, y, partial(others.network, other, x, y)
    design = drawn(seed, held_out=seed >= HELD_OUT.start)
    x, y = task(design)
    outputs = y.shape[1] if y.ndim > 1 else 10
    return design, x, y, partial(built, design, x.shape[1], outputs)


def _options(design: Design | others.Other, y: Tensor) -> dict[str, Any]:
    return {"targets": y[:MEASURED], "loss": loss_of(y), "optimizer": design.optimizer}


def run(stage: str, folder: Path, mapper: Callable[..., Iterable[Any]]) -> None:
    """One stage for every seed that is not in its file yet."""
    file = folder / f"{stage}.jsonl"
    known = read(file)
    sets = (HELD_OUT, FITTED, MORE, UNSEEN)
    every = [s for group in zip_longest(*sets) for s in group if s is not None]
    if stage == "findings":
        every = list(HELD_OUT)
    if stage == "cures":
        scores = read(folder / "truth.jsonl")
        every = [s for s in every if s in HELD_OUT and scores[s]["score"] < FITS]
    with file.open("a", encoding="utf-8") as out:
        for row in mapper(partial(_row, stage), [s for s in every if s not in known]):
            out.write(json.dumps(row) + "\n")
            out.flush()


def _row(stage: str, seed: int) -> dict[str, Any]:
    work = {"truth": truth, "probes": probes, "findings": findings, "cures": cures}
    return {"seed": seed, **work[stage](seed)}


def read(file: Path) -> dict[int, dict[str, Any]]:
    """Rows of a stage by seed; a last line that was cut is left out."""
    if not file.exists():
        return {}
    lines = file.read_text(encoding="utf-8").splitlines()
    rows = [json.loads(line) for line in lines if line.endswith("}")]
    return {row["seed"]: row for row in rows}


def fit(folder: Path) -> None:
    """Write the coefficients that the library reads, from the training set alone."""
    scores, seen = read(folder / "truth.jsonl"), read(folder / "probes.jsonl")
    seeds = [s for s in (*FITTED, *MORE) if s in scores and s in seen]
    rows = [{k: v for k, v in seen[s].items() if k != "seed"} for s in seeds]
    says = f"a score of {FITS} at the best of four rates in 1200 steps"
    model = diagnosis.trainability.fit_trainability(
        rows, [scores[s]["score"] >= FITS for s in seeds], says=says
    )
    model.save(KEPT)
    print(dict(zip(model.names, model.slopes, strict=True)), "offset", model.offset)


def table(folder: Path) -> None:
    """Join the stages, keep them as one table, and say what was found."""
    stages = [read(folder / f"{stage}.jsonl") for stage in STAGES]
    rows = []
    for seed in (*FITTED, *HELD_OUT):
        row: dict[str, Any] = dict(asdict(drawn(seed, held_out=seed >= HELD_OUT.start)))
        for stage in stages:
            row |= stage.get(seed, {})
        if "score" in row and "progress" in row:
            rows.append(row)
    names = [f.name for f in fields(Design)]
    names += ["score", *FEATURES, "probability", "ratio", "findings", "cures"]
    with TABLE.open("w", encoding="utf-8", newline="") as out:
        writer = csv.DictWriter(out, names, lineterminator="\n", extrasaction="ignore")
        writer.writeheader()
        for row in rows:
            words = [f"{n}:{s}" for n, s, follows in row.get("findings", ()) if not follows]
            trained = [f"{n}:{score:.3f}" for n, score in row.get("cures", ())]
            short = {k: f"{v:.6g}" for k, v in row.items() if isinstance(v, float)}
            writer.writerow(
                {**row, **short, "findings": " ".join(words), "cures": " ".join(trained)}
            )
    _table_of_others(*stages[:2])
    report([r for r in rows if "findings" in r])


def _table_of_others(*stages: dict[int, dict[str, Any]]) -> None:
    """The same of the second generator."""
    names = [f.name for f in fields(others.Other)] + ["score", *FEATURES, "probability"]
    model = diagnosis.trainability.TrainabilityModel.read(KEPT)
    rows: list[dict[str, Any]] = []
    for seed in (s for s in (*MORE, *UNSEEN) if all(s in stage for stage in stages)):
        row: dict[str, Any] = asdict(opened(seed)[0]) | stages[0][seed] | stages[1][seed]
        rows.append(row | {"seed": seed, "probability": model.probability(row).value})
    with OTHERS.open("w", encoding="utf-8", newline="") as out:
        writer = csv.DictWriter(out, names, lineterminator="\n", extrasaction="ignore")
        writer.writeheader()
        for row in rows:
            writer.writerow(row | {k: f"{v:.6g}" for k, v in row.items() if isinstance(v, float)})
    report_others([r for r in rows if r["seed"] in UNSEEN])


def _mapper(workers: int, ray: bool) -> Callable[..., Iterable[Any]]:
    if ray:
        from sigmascope.integrations.ray import RayMap

        return RayMap()

    def share(work: Callable[[int], Any], many: Iterable[int]) -> Iterator[Any]:
        with ProcessPoolExecutor(workers, get_context("spawn")) as pool:
            yield from pool.map(work, many, chunksize=2)

    return share


if __name__ == "__main__":
    options = argparse.ArgumentParser()
    options.add_argument("--out", type=Path, required=True)
    options.add_argument("--workers", type=int, default=2)
    options.add_argument("--ray", action="store_true")
    options.add_argument("--stage", choices=STAGES)
    options.add_argument("--fit", action="store_true")
    options.add_argument("--table", action="store_true")
    given = options.parse_args()
    given.out.mkdir(parents=True, exist_ok=True)
    if given.fit:
        fit(given.out)
    elif not given.table:
        for name in (given.stage,) if given.stage else STAGES:
            run(name, given.out, _mapper(given.workers, given.ray))
    if given.table:
        table(given.out)
