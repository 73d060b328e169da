"""Which weight stands in the way of a transfer over width: said, or left to the eye."""

import math
from collections.abc import Iterator
from typing import Any

import torch

from benchmarks.peers._rows import OURS, Answer
from benchmarks.widths import CELLS, MISTAKES, WIDTHS, Plan, looked, task

SEEDS, STEPS = 3, 3
NEAR = 0.05  # between slopes that the eye does not tell apart
OFF = 0.25  # a slope that the eye takes for one: half of the smallest that theory knows


def curves(plan: Plan) -> dict[str, float]:
    """The slope over width of what each module writes at the last step, as the check records it."""
    from mup.coord_check import _get_coord_data

    how = task(plan.network)
    x, y = (t[: how["batch_size"]] for t in how["data"])

    def made(width: int) -> Any:
        model, optimizer = plan(width)
        model.optimizer = optimizer
        return model

    found = _get_coord_data(
        {width: lambda width=width: made(width) for width in WIDTHS},
        [(x, y.flatten())],
        lambda model: model.optimizer,
        nsteps=STEPS,
        nseeds=SEEDS,
        cuda=False,
        show_progress=False,
    )
    last = found[found["t"] == STEPS]
    logs = torch.tensor([math.log(w) for w in WIDTHS])
    away = logs - logs.mean()
    slopes = {}
    for module, rows in last.groupby("module"):
        means = rows.groupby("width")["l1"].mean()
        # the whole model writes what its last layer does
        if module and len(means) == len(WIDTHS) and (means > 0).all():
            heights = torch.tensor([math.log(means[w]) for w in WIDTHS])
            slopes[str(module)] = float((away * heights).sum() / (away**2).sum())
    return slopes


def widths() -> Iterator[Answer]:
    """Mistakes that are planted, and right parametrisations."""
    ours = theirs = count = 0
    for plan, named in MISTAKES:
        if plan.optimizer == "muon" or named == "(epsilon)":
            continue  # the check takes one optimizer; an epsilon has no curve of its own
        count += 1
        want = named or plan.at
        first = next(iter(looked(plan, SEEDS).obstacles), None)
        ours += first is not None and first.name.startswith(want)
        slopes = curves(plan)
        top = max(abs(slope) for slope in slopes.values())
        module = ".a" if want == "(scores" else want.rpartition(".")[0]
        theirs += any(m.endswith(module) for m, s in slopes.items() if abs(s) > top - NEAR)
    says = (
        "Of the check, whose data have no verdict, the steepest curves of the last step count; of "
        f"{count} mistakes, one in the attention scale, one in a readout that is tied."
    )
    asked = {OURS: "ss.widths(make, widths, data)", "mup": "coord_check.get_coord_data"}
    yield Answer(
        "Mistakes planted in parametrisations of width: the weight that is wrong stands first",
        "share of the mistakes",
        {OURS: ours / count, "mup": theirs / count},
        aim=1.0,
        asked=asked,
        says=says,
    )
    accused = weights = off = drawn = 0
    for plan in CELLS:
        if plan.standard or plan.optimizer == "muon":
            continue
        found = looked(plan, SEEDS)
        accused += len({o.name for o in found.obstacles})
        weights += len(found.weights)
        slopes = curves(plan)
        off += sum(abs(slope) > OFF for slope in slopes.values())
        drawn += len(slopes)
    yield Answer(
        "Right parametrisations: what looks wrong",
        "share of the weights (ours) and of the curves (theirs)",
        {OURS: accused / weights, "mup": off / drawn},
        asked=asked,
        says="Of the check slopes above 0.25 count. A readout that starts small, as it should, has "
        "a curve that falls until it learned.",
    )
