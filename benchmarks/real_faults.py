"""Does the diagnosis name what is wrong with real programs, and leave their patches in peace?

OMP_NUM_THREADS=1 python -m benchmarks.real_faults                # the table, with Wilson intervals
python -m benchmarks.real_faults --no-remedies SO-31880720        # some cases, diagnosis only

Programs that people posted or committed because they did not train, with the patch that made them
train (`real_faults/README.md` beside Fashion-MNIST and CIFAR-10, in `$SIGMASCOPE_DATA`). A case is
detected by a warning, an error or a probability below one half; its cause is named where the rule
of a finding stands for one of the case's labels in `NAMES`; symptoms name nothing. A remedy is
right where the program, changed by the one that ranks first, trains as the patch does on all data.
"""

import argparse
import json
import os
import statistics
import sys
import time
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

import sigmascope as ss
from sigmascope.core.records import Finding, Reading
from sigmascope.diagnosis.cures import Cure, cured as cure_of

SAMPLES, IMAGES = 128, 64  # measured on: the default of the command line; of images
# What a rule names, in the labels of the benchmarks. A symptom names nothing, but where a program's
# own labels are symptoms.
NAMES: dict[str, set[str]] = {
    "constant-output": {"act-last-constant"},
    "out-of-reach": {"act-last-range"},
    "raw-output": {"act-last-missing", "loss"},
    "unsuited-closing": {"act-last-wrong"},
    "double-softmax": {"act-last-wrong", "loss"},
    "softmax-in-the-loss": {"loss"},
    "shared-classes": {"act-last-wrong", "loss"},
    "indifferent-loss": {"loss", "units-output"},
    "classes-on-one-output": {"units-output", "loss", "act-last-wrong"},
    "spread-targets": {"units-output"},
    "unfit-targets": {"units-output", "targets-broken"},
    "single-target": {"targets-broken"},
    "squared-error-for-classes": {"loss"},
    "linear-network": {"act-hidden-missing"},
    "linear-layers": {"act-hidden-missing"},
    "layer-gain": {"init"},
    "unused-layers": {"layers"},
    "copied-targets": {"targets-broken"},
    "unscaled-inputs": {"inputs"},
    "unscaled-targets": {"targets-scale"},
    "sigmoid-stack": {"act-hidden-saturating"},
    "saturated-units": {"act-hidden-saturating"},
    "dead-units": {"act-hidden-dying"},
    "silent-samples": {"act-hidden-dying"},
    "weight-scale": {"init"},
    "equal-units": {"init"},
    "zero-weights": {"init"},
    "asymmetric-weights": {"init"},
    "rate-too-high": {"lr-high"},
    "rate-too-low": {"lr-low"},
    "few-steps": {"epochs"},
    "other-optimizer": {"optimizer"},
    "large-batch": {"batch"},
    "exploding-signal": {"symptom-exploding"},
    "exploding-adjoints": {"symptom-exploding"},
    "non-finite": {"symptom-exploding"},
    "vanishing-adjoints": {"symptom-vanishing"},
    "vanishing-signal": {"symptom-vanishing"},
}


def look(
    program: Any, model: nn.Module, inputs: Tensor, targets: Tensor, *, total: int | None = None
) -> tuple[tuple[Finding, ...], Reading | None]:
    """What a user is told of a program: findings in order, and the probability of fitting.

    Args:
        program: A `Program` of `real_faults/kit.py`: its loss, optimizer, rate, batch and epochs.
        model: At its initial weights.
        inputs: All that is trained on, or a sample.
        targets: Theirs.
        total: How many samples there are in all, where `inputs` are some of them. Without it, what
            has the size of the samples that are taken here (128, or 64 images) is taken for a
            sample of unknown whole, of which nothing is said of epochs.
    """
    found = ss.diagnose(as_program(program, model, inputs, targets, total=total), budget=None,
                        samples=size_of(inputs))  # fmt: skip
    own = found.profile.series("probability at your settings")
    return found.findings, own[0] if own else ss.probability(found.profile)


def as_program(
    program: Any, model: nn.Module, inputs: Tensor, targets: Tensor, *, total: int | None = None
) -> ss.Program:
    """A program of the kit, as sigmascope takes one."""
    kit = _rooms()[0]
    unknown = total is None and len(inputs) == size_of(inputs)
    return ss.Program(
        model,
        (inputs, targets),
        program.loss,
        lambda parameters: kit.optimiser(program, list(parameters)),
        batch_size=program.batch,
        epochs=None if unknown else program.epochs,
        total=total,
    )


def size_of(inputs: Tensor) -> int:
    """How many samples are measured."""
    return IMAGES if inputs.dim() == 4 else SAMPLES


@cache
def _rooms() -> tuple[Any, Any]:
    """The kit and the cases, which lie beside the data."""
    beside = Path(__file__).resolve().parents[2] / "shared" / "data"
    folder = Path(os.environ.get("SIGMASCOPE_DATA", beside)) / "real_faults"
    if not (folder / "cases.py").exists():
        raise FileNotFoundError(f"There are no real faulty programs in {folder}.")
    sys.path.insert(0, str(folder))
    import cases  # type: ignore[import-not-found]
    import kit  # type: ignore[import-not-found]

    return kit, cases


def shows(case: Any, verified: dict[str, Any]) -> bool:
    """Whether the fault shows when the program is trained, and the patch works."""
    if case.name not in verified:
        return False
    bug, fix = (statistics.median(verified[case.name][k]) for k in ("bug", "fix"))
    least = 0.1
    if case.fix.read != "r2":
        y = case.data()[1].reshape(-1).round()
        least = (y.unique(return_counts=True)[1].max() / len(y)).item() + 0.03
    gap = fix - bug >= 0.03 or 1 - fix <= 0.5 * (1 - bug)
    return fix >= min(least, 1.0) and fix > bug and gap


def told(case: Any, kind: str) -> dict[str, Any]:
    """What is said of the faulty or of the patched program."""
    kit, _ = _rooms()
    program = getattr(case, kind)
    X, Y = kit.prepared(program, case.data())
    begin = time.process_time()
    findings, chance = look(program, program.model(0), X, Y)
    return {
        "findings": [(f.name, f.severity, f.follows) for f in findings],
        "probability": None if chance is None else chance.estimate.value,
        "seconds": round(time.process_time() - begin, 1),
    }


def cured(case: Any, scores: dict[str, float]) -> dict[str, Any]:
    """The program, changed by the cure that ranks first, trained on all of its data."""
    kit, _ = _rooms()
    X, Y = kit.prepared(case.bug, case.data())
    tried = cure_of(as_program(case.bug, case.bug.model(0), X, Y), samples=size_of(X)).tried
    if not tried:
        return {"cure": None, "cured": False}
    score = _trained(case, tried[0])
    good = score >= scores["fix"] - 0.03 and score > scores["bug"] + 0.01
    return {"cure": tried[0].name, "score": round(score, 4), "cured": good}


def _trained(case: Any, cure: Cure) -> float:
    """As the kit trains and scores, with what the cure changed."""
    kit, _ = _rooms()
    changed = cure.program
    recipe = changed.recipe()
    assert recipe is not None
    data = changed.data
    X, Y = data.data if hasattr(data, "change") else data
    Y = data.change(Y) if hasattr(data, "change") else Y
    classes = Y.dtype == torch.long and Y.dim() == 1
    read = "argmax" if classes else case.bug.read
    raw = isinstance(changed.loss, str) and changed.loss.endswith("_with_logits")
    loss = ss.diagnosis.programs.loss_of(changed.loss) if changed.loss else case.bug.loss
    plan = replace(case.bug, loss=loss, batch=changed.batch_size or case.bug.batch,
                   epochs=max(1, round(changed.epochs or case.bug.epochs)), read=read)  # fmt: skip
    model = changed.model
    by = recipe.make(model)
    make, kit.optimiser = kit.optimiser, lambda _p, _parameters: by
    try:
        kit.train(plan, model, X, Y, 0)
    finally:
        kit.optimiser = make
    return kit.score(plan, nn.Sequential(model, nn.Sigmoid()) if raw else model, X, Y)


def main() -> int:
    """Print each case, and the shares."""
    ask = argparse.ArgumentParser()
    ask.add_argument("names", nargs="*")
    ask.add_argument("--no-remedies", action="store_true")
    given = ask.parse_args()
    torch.set_num_threads(1)
    _, cases = _rooms()
    verified = json.loads((Path(cases.__file__).parent / "verified.json").read_text())
    rows = []
    for case in cases.CASES:
        if (given.names and case.name not in given.names) or not shows(case, verified):
            continue
        scores = {k: verified[case.name][k][0] for k in ("bug", "fix")}
        row = {"case": case.name, "labels": case.labels, **{k: told(case, k) for k in scores}}
        if not given.no_remedies:
            row["remedy"] = cured(case, scores)
        rows.append(row)
        print(_line(row, scores), flush=True)
    for title, (k, n) in shares(rows).items():
        low, high = _rooms()[0].wilson(k, n)
        print(f"{title:52s} {k} of {n} = {k / max(n, 1):.0%} [{max(low, 0):.0%}, {high:.0%}]")
    return 0


def _line(row: dict[str, Any], scores: dict[str, float]) -> str:
    words = [f"{row['case']:14s} [{' '.join(row['labels'])}]"]
    for kind in ("bug", "fix"):
        chance = row[kind]["probability"]
        said = " ".join(f"{s[0].upper()}:{n}" for n, s, f in row[kind]["findings"] if not f)
        shown = "–" if chance is None else f"{chance:.2f}"
        words.append(f"{kind} p={shown} {said or 'nothing'} ({row[kind]['seconds']} s)")
    words.append(f"{scores['bug']:.2f}->{scores['fix']:.2f}")
    cure = row.get("remedy", {})
    words += (
        [f"{cure['cure']} {cure.get('score')} {'CURED' if cure['cured'] else ''}"] if cure else []
    )
    return " | ".join(words)


def shares(rows: list[dict[str, Any]]) -> dict[str, tuple[int, int]]:
    """What is counted: how many, of how many."""

    def alarmed(told: dict[str, Any], *severities: str) -> bool:
        return any(s in severities for _, s, _ in told["findings"])

    def low(told: dict[str, Any]) -> bool:
        return told["probability"] is not None and told["probability"] < 0.5

    def named(row: dict[str, Any], most: int) -> bool:
        first = row["bug"]["findings"][:most]
        return any(NAMES.get(name, set()) & set(row["labels"]) for name, _, _ in first)

    n, tried = len(rows), [r["remedy"] for r in rows if "remedy" in r]
    found = [alarmed(r["bug"], "error", "warning") or low(r["bug"]) for r in rows]
    return {
        "detected": (sum(found), n),
        "cause in the first finding": (sum(named(r, 1) for r in rows), n),
        "cause in the first three": (sum(named(r, 3) for r in rows), n),
        "patched: an error": (sum(alarmed(r["fix"], "error") for r in rows), n),
        "patched: a warning or an error": (
            sum(alarmed(r["fix"], "error", "warning") for r in rows), n,
        ),
        "patched: a probability below one half": (sum(low(r["fix"]) for r in rows), n),
        "first remedy trains as the patch does": (sum(r["cured"] for r in tried), len(tried)),
    }  # fmt: skip


if __name__ == "__main__":
    sys.exit(main())
