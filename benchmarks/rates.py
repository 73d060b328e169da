"""Is the learning rate that `rank` names one to train at?

python -m benchmarks.rates --out FOLDER                # train, resumable; 20 minutes
python -m benchmarks.rates --out FOLDER --table        # what was found, and the kept table

Designs are those of `trainability.py` that reach one half and are cheap to train. `rank` names a
rate for each, from 256 samples; then each is trained at all four rates for 1200 steps, on
minibatches of 32 of 512 samples. What counts is what is left at the end, in evaluation mode,
averaged over the last steps: a rate that comes far once and does not stay there is no good one.
The regret of a rate is how much farther the best of the four came. The rule was chosen on designs
of the training set of `trainability.py`, and is judged on others. Fashion-MNIST is read from
`$SIGMASCOPE_DATA`.
"""

import argparse
import csv
import json
from collections.abc import Iterator, Sequence
from itertools import islice, zip_longest
from pathlib import Path
from typing import Any

import numpy as np
import torch
from scipy import stats
from torch import Tensor

from benchmarks._designs import Design, drawn
from benchmarks._truth import FITS, loss_of, score
from benchmarks.ranking import KEPT, constant_score, entry, kept
from benchmarks.trainability import FITTED, HELD_OUT, opened, read
from sigmascope import diagnosis
from sigmascope.diagnosis.trainability import RATES, ScoreModel, optimizer_of

STEPS, BATCH = 1200, 32
LAST, EVERY = 200, 20  # the end is the mean of the last looks
DESIGNS = 60  # of either set
DEEPEST = {"mlp": 24, "residual-mlp": 24, "conv": 5, "residual-conv": 5, "rnn": 1, "transformer": 2}
TABLE = Path(__file__).with_name("rates.csv")
BAD = 0.05  # of the way
Row = dict[str, Any]


def wanted() -> Iterator[int]:
    """Seeds of both sets by turns; of the held-out ones those that no rule was ever tried on."""
    known = kept()
    good = lambda seeds: (
        s for s in seeds if known[s]["score"] >= FITS and is_cheap(drawn(s, held_out=s in HELD_OUT))
    )
    sets = islice(good(HELD_OUT), DESIGNS, 2 * DESIGNS), islice(good(FITTED), DESIGNS)
    return (s for pair in zip_longest(*sets) for s in pair if s is not None)


def is_cheap(design: Design) -> bool:
    """Whether five thousand steps take seconds."""
    return design.depth <= DEEPEST[design.family]


def told(seed: int) -> Row:
    """What is named and foretold, with the comparison of rates and without."""
    (found,) = diagnosis.ranking.ranked_entries([entry(seed)], budget=None)
    seen = diagnosis.ranking.looked(entry(seed)).seen()
    farthest = lambda c: max(map(float, np.convolve(c.reached(seen.constant), [0.5, 0.5], "valid")))
    first = max((c for c in seen.curves if len(c.losses) > 1), key=farthest).rate
    e = found.forecast
    plain = ScoreModel.read(KEPT).forecast(seen.features())
    return {
        **{"named": found.rate, "farthest": first, "passes": found.passes},
        **{"low": e.low, "value": e.value, "high": e.high},
        **{"plain low": plain.low, "plain high": plain.high},
    }


def ends(seed: int) -> Row:
    """The share of the way at the end of training, at each rate."""
    optimizer = opened(seed)[0].optimizer
    return {f"{rate:g}": end(seed, rate) for rate in RATES[optimizer]}


def end(seed: int, rate: float) -> float:
    """The share of the way at the end of training; 0 where it was lost."""
    design, x, y, make = opened(seed)
    model, value_of, looks = make().train(), loss_of(y), []
    by = optimizer_of([*model.parameters()], design.optimizer, rate)
    g = torch.Generator().manual_seed(seed)
    for step in range(STEPS):
        rows = torch.randint(len(x), (BATCH,), generator=g)
        by.zero_grad()
        value = value_of(model(x[rows]), y[rows])
        if not bool(value.isfinite()):
            return 0.0
        value.backward()
        by.step()
        if step >= STEPS - LAST and step % EVERY == EVERY - 1:
            looks.append(share(model, x, y))
    return sum(looks) / len(looks)


def share(model: torch.nn.Module, x: Tensor, y: Tensor) -> float:
    """Of the way from the best constant output, in evaluation mode."""
    model.eval()
    found, least = score(model, x, y), constant_score(y)
    model.train()
    return max(0.0, (found - least) / (1 - least))


def run(folder: Path) -> None:
    """Every design that is not in the file yet."""
    file = folder / "rates.jsonl"
    known = read(file)
    with file.open("a", encoding="utf-8") as out:
        for seed in wanted():
            if seed not in known:
                out.write(json.dumps({"seed": seed, **told(seed), "ends": ends(seed)}) + "\n")
                out.flush()


def table(folder: Path) -> None:
    """Keep the rows, and say how good the rates are."""
    rows = []
    for seed, row in sorted(read(folder / "rates.jsonl").items()):
        design = drawn(seed, held_out=seed in HELD_OUT)
        about = {k: getattr(design, k) for k in ("family", "depth", "norm", "data", "optimizer")}
        reached = sorted(row.pop("ends").items(), key=lambda pair: float(pair[0]))
        rates = {f"end {i + 1}": value for i, (_, value) in enumerate(reached)}
        at = {float(rate): value for rate, value in reached}
        came = {f"{k} end": at[row[k]] for k in ("named", "farthest")}
        rows.append({**about, **row, **rates, **came, "best": max(at.values())})
    with TABLE.open("w", encoding="utf-8", newline="") as out:
        writer = csv.DictWriter(out, list(rows[0]), lineterminator="\n")
        writer.writeheader()
        for row in rows:
            writer.writerow({k: f"{v:.6g}" if isinstance(v, float) else v for k, v in row.items()})
    for name, seeds in (("chosen on", FITTED), ("held out", HELD_OUT)):
        print(name, json.dumps(said([r for r in rows if r["seed"] in seeds])))


def said(rows: Sequence[Row]) -> Row:
    """Regrets and coverage, of the rate that is named and of the one that came farthest."""
    passes = float(np.mean([r["passes"] for r in rows]))
    found: Row = {"designs": len(rows), "passes": round(passes, 1)}
    for which, ends_of in (("named", ("low", "high")), ("farthest", ("plain low", "plain high"))):
        regrets = np.array([r["best"] - r[f"{which} end"] for r in rows])
        held = [r[ends_of[0]] <= r[f"{which} end"] <= r[ends_of[1]] for r in rows]
        exact = stats.binomtest(sum(held), len(held)).proportion_ci(0.95)
        found[which] = {
            "regret": round(float(regrets.mean()), 4),
            "worst": round(float(regrets.max()), 3),
            f"above {BAD}": int((regrets > BAD).sum()),
            "above 0.2": int((regrets > 0.2).sum()),
            "inside the interval": [round(v, 3) for v in (np.mean(held), exact.low, exact.high)],
        }
    return found


if __name__ == "__main__":
    options = argparse.ArgumentParser()
    options.add_argument("--out", type=Path, required=True)
    options.add_argument("--table", action="store_true")
    given = options.parse_args()
    given.out.mkdir(parents=True, exist_ok=True)
    (table if given.table else run)(given.out)
