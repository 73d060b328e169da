"""How often remedies cure what they claim on networks drawn at random; Algorithm 1 at depth 32.

python -m benchmarks.remedies               # tables, for people (minutes)
python -m benchmarks.remedies | tail -1     # one line of JSON, for scripts

Multilayer perceptrons on digits: depth 8 to 64, width 32 to 256, five initialisations. Each remedy
is applied where it claims to cure something that was found, works with 128 samples, and is measured
on 128 others.
"""

import json
import time
from collections import defaultdict

import torch
from torch.nn import functional as F

from benchmarks._timing import environment
from sigmascope import diagnosis, sources, survey
from sigmascope.diagnosis import treat
from sigmascope.diagnosis.remedies import REMEDIES, Inapplicable, RankPretraining
from sigmascope.models import networks

NETWORKS = 40
KINDS = (
    {"init": "torch"},
    {"init": "torch", "bias": False},
    {"init": "he"},
    {"init": "xavier"},
    {"init": "asymmetric"},
)


def random_network(seed: int) -> tuple[str, networks.MLP]:
    """A network whose depth, width and initialisation are drawn with this seed."""
    g = torch.Generator().manual_seed(seed)
    depth = int(torch.randint(8, 65, (), generator=g))
    width = int(2 ** (5 + 3 * float(torch.rand((), generator=g))))
    options = KINDS[seed % len(KINDS)]
    model = networks.mlp(inputs=64, outputs=10, depth=depth, width=width, generator=g, **options)
    return f"depth {depth}, width {width}, {options}", model


def rates() -> dict[str, dict[str, object]]:
    """For each remedy: how many claims it kept, and where it did not."""
    measured, other = sources.halves(sources.open_data("digits", samples=256))
    kept: dict[str, int] = defaultdict(int)
    claims: dict[str, int] = defaultdict(int)
    failed: dict[str, list[str]] = defaultdict(list)
    options = {"targets": measured.targets, "loss": F.cross_entropy}
    for seed in range(NETWORKS):
        name, model = random_network(seed)
        before = survey.profile(model, measured.inputs, **options)
        found = {f.name for f in diagnosis.judge(before)}
        for kind in REMEDIES:
            claimed = found & set(kind.cures)
            if not claimed:
                continue
            try:
                t = treat(
                    model, measured.inputs, kind(), batches=other.inputs, before=before, **options
                )
            except Inapplicable:
                continue
            cured = claimed & set(t.cured)
            claims[kind.name] += len(claimed)
            kept[kind.name] += len(cured)
            failed[kind.name] += [f"{name}: {f}" for f in sorted(claimed - cured)]
    return {
        name: {"claims": claims[name], "cured": kept[name], "failed": failed[name]}
        for name in claims
    }


def algorithm_1() -> list[dict[str, object]]:
    """Participation ratio before and after, on the batch itself and on another; seconds."""
    measured, other = sources.halves(sources.open_data("digits", samples=256))
    rows: list[dict[str, object]] = []
    for options in KINDS[:3]:
        for seed in range(3):
            g = torch.Generator().manual_seed(seed)
            model = networks.mlp(inputs=64, outputs=10, depth=32, width=128, generator=g, **options)
            begun = time.perf_counter()
            new = RankPretraining().apply(model, measured.inputs)
            seconds = time.perf_counter() - begun
            ratios = [
                diagnosis.last_ratio(survey.profile(m, x, views=["representations"]))
                for m, x in (
                    (model, measured.inputs),
                    (new, measured.inputs),
                    (new, other.inputs),
                )
            ]
            rows.append({**options, "seed": seed, "ratios": ratios, "seconds": seconds})
    return rows


if __name__ == "__main__":
    table = algorithm_1()
    print("Algorithm 1 at depth 32 and width 128: r before, after, on other samples; seconds")
    for row in table:
        ratios = " ".join(f"{r:8.3f}" for r in row["ratios"])  # type: ignore[attr-defined]
        kind = {k: v for k, v in row.items() if k in ("init", "bias", "seed")}
        print(f"{kind!s:55s} {ratios} {row['seconds']:6.1f} s")
    found = rates()
    for name, row in found.items():
        print(f"{name:18s} cured {row['cured']} of {row['claims']}")
        for where in row["failed"]:  # type: ignore[attr-defined]
            print(f"    not: {where}")
    print(json.dumps({**environment(), "algorithm 1": table, "rates": found}))
