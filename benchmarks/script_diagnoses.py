"""What is said of training scripts that are run as they are: faulty, patched and healthy ones.

OMP_NUM_THREADS=1 python -m benchmarks.script_diagnoses --split tune      # or report
OMP_NUM_THREADS=1 python -m benchmarks.script_diagnoses gan vae           # kinds
OMP_NUM_THREADS=1 python -m benchmarks.script_diagnoses --cure            # and do as it says

The scripts lie in `benchmarks/scripts`, with an index of their faults. A cause stands first where
the name of the first finding is one by which a reader would know the patch: `CAUSES`, by hand.
With `--cure` the lines that are told first are changed, or else what helped most is done, and the
script runs to its end: it is cured where that makes up for 80 % of what the patch is better by.
"""

import argparse
import math
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

from benchmarks.scripts_check import entries, paths, reached

CAUSES: Mapping[str, frozenset[str]] = {
    fault: frozenset(names.split())
    for fault, names in {
        "attached-target": "attached-target",
        "batch-of-one": "batch-of-one",
        "ema-overwrites": "overwritten-weights",
        "recreated-optimizer": "recreated-optimizer",
        "bounded-output": "out-of-reach bounded-output",
        "unnormalised-graph": "exploding-signal rate-too-high",
        "broadcast-loss": "spread-shapes spread-targets",
        "cut-graph": "cut-graph cut-through-time no-gradients-arrive rebuilt-loss no-gradient",
        "dead-units": "dead-units",
        "double-sigmoid": "softmax-twice double-softmax",
        "double-softmax": "softmax-twice double-softmax",
        "endless-warmup": "long-warm-up rate-too-low dwindling-rate",
        "evaluation-mode": "evaluation-mode untouched-statistics stale-statistics",
        "frozen-layers": "frozen-layer frozen-parameters",
        "gradients-never-zeroed": "gradients-not-zeroed",
        "growing-graph": "growing-graph graph-used-twice",
        "inverted-mask": "lost-inputs later-inputs-seen",
        "misaligned-labels": "unrelated-targets",
        "no-backward": "no-backward",
        "no-step": "no-step",
        "nothing-loaded": "nothing-loaded",
        "optimizer-of-other-weights": "other-parameters foreign-optimizer",
        "outweighed-loss": "outweighed-error",
        "oversmoothing": "rank-collapse",
        "padding-in-loss": "counted-padding",
        "partial-parameters": "left-out-parameters untrained-weights",
        "rate-high": "rate-too-high",
        "rate-low": "rate-too-low",
        "rebuilt-loss": "rebuilt-loss no-gradients-arrive cut-graph",
        "reversed-loss": "reversed-loss reversed-policy maximised-loss unbounded-loss "
        "agreeing-adversaries",
        "same-batch": "repeated-batch",
        "scheduler-too-fast": "dwindling-rate",
        "softmax-dimension": "mixed-samples unsuited-closing unnormalised-attention "
        "unshared-probabilities",
        "step-before-backward": "step-before-backward",
        "scaled-gradients": "scaled-gradients",
        "strong-clipping": "clipped-steps strong-clipping scaled-gradients",
        "strong-decay": "strong-weight-decay",
        "summed-loss": "rate-too-high summed-loss",
        "too-deep": "sigmoid-stack rank-collapse layer-gain no-progress adjoint-size signal-size",
        "unregistered-layers": "left-out-parameters unregistered-weights",
        "unscaled-inputs": "unscaled-inputs offset-inputs",
        "unscaled-targets": "unscaled-targets",
        "unshuffled-classes": "one-class-batches sorted-samples",
        "zero-weights": "zero-weights equal-units stuck-weights",
        "zeroed-before-step": "zeroed-before-step zeroed-between-batches",
        # of scripts by somebody who knew none of the rules: written down before they ran, but for
        # unaveraged-statistics, skipped-inputs, rounded-steps, lost-inputs, which came after
        "augmentation-misses-boxes": "unrelated-targets",
        "batch-dimension": "mixed-samples lost-inputs",
        "buffers-not-averaged": "stale-statistics untouched-statistics unaveraged-statistics",
        "changing-closure": "changing-closure",
        "divided-twice": "rate-too-low divided-twice",
        "double-shift": "copied-targets unrelated-targets skipped-inputs",
        "flat-second-derivative": "no-gradient",
        "heavy-dropout": "heavy-dropout",
        "ignored-class": "omitted-class",
        "large-init": "loud-output unsuited-weights weight-scale",
        "leaky-mask": "unnormalised-attention later-inputs-seen",
        "low-precision-weights": "rounded-steps",
        "normalised-wrong-axis": "lost-inputs unrelated-targets",
        "probabilities-for-logs": "unshared-probabilities",
        "reversed-target": "unrelated-targets reversed-loss",
        "rounded-inputs": "repeated-inputs alike-inputs",
        "scrambled-reshape": "mixed-samples unrelated-targets",
        "skip-forgotten": "unused-layers",
        "slow-average": "stale-target slow-average",
        "swapped-axes": "unrelated-targets",
        "unfrozen-teacher": "attached-target",
        "unrelated-target": "unrelated-targets",
        "unshifted-target": "copied-targets",
        "weights-not-restored": "overwritten-weights",
        # of a fourth set, by somebody who knew no rule, of the kinds and mistakes that people meet:
        # written down before they ran, but for no-step, unswitched-evaluation, repeated-draws,
        # scrambled-classes
        "optimizer-before-layer-replaced": "other-parameters left-out-parameters",
        "same-batch-every-step": "repeated-batch",
        "dropout-too-high": "heavy-dropout",
        "sum-in-place-of-mean": "summed-loss rate-too-high",
        "clipping-too-strong": "clipped-steps strong-clipping scaled-gradients",
        "metric-in-training-mode": "unswitched-evaluation",
        "dead-relu-outputs": "dead-units unsuited-closing bounded-output raw-output",
        "scheduler-per-batch": "dwindling-rate",
        "eval-mode-kept": "evaluation-mode untouched-statistics stale-statistics",
        "inputs-not-scaled": "unscaled-inputs offset-inputs",
        "same-augmentation-for-all": "repeated-draws identical-pair alike-inputs repeated-inputs",
        "frozen-by-mistake": "frozen-layer frozen-parameters",
        "step-of-another-models-optimizer": "other-parameters left-out-parameters "
        "foreign-optimizer no-gradients-arrive no-step",
        "softmax-before-cross-entropy": "softmax-twice double-softmax",
        "load-strict-false-loads-nothing": "nothing-loaded",
        "rate-reaches-zero": "dwindling-rate",
        "zero-grad-of-other-optimizer": "gradients-not-zeroed",
        "discriminator-wins": "discriminator-won",
        "too-deep-without-skip": "rank-collapse layer-gain no-progress vanishing-signal "
        "vanishing-adjoints sigmoid-stack",
        "dropout-always-on": "random-evaluation",
        "parameters-without-optimizer": "left-out-parameters",
        "weight-decay-too-strong": "strong-weight-decay harmful-decay",
        "broadcast-shapes": "spread-shapes spread-targets",
        "log-of-zero": "non-finite-loss non-finite-gradients",
        "layers-in-plain-dict": "left-out-parameters unregistered-weights",
        "no-grad-on-part-of-the-net": "cut-graph",
        "one-loss-term-outweighs": "outweighed-error",
        "rate-too-high": "rate-too-high",
        "rate-too-low": "rate-too-low",
        "labels-misaligned": "unrelated-targets",
        "unshuffled-sorted": "one-class-batches sorted-samples",
        "step-without-backward": "no-backward no-gradients-arrive",
        "target-network-never-updated": "stale-target",
        "advantage-sign": "reversed-policy reversed-loss",
        "sigmoid-twice": "softmax-twice double-softmax",
        "dimensions-mixed-by-reshape": "scrambled-classes mixed-samples unrelated-targets",
        "softmax-over-wrong-dimension": "unnormalised-attention mixed-samples",
        "loss-averaged-over-padding": "counted-padding",
        "loss-rebuilt-by-torch-tensor": "rebuilt-loss cut-loss no-gradients-arrive",
        "bad-initialisation": "zero-weights equal-units stuck-weights unsuited-weights "
        "weight-scale loud-output idle-parameters",
        "hidden-state-detached": "cut-through-time cut-graph",
        "state-leaks-across-samples": "shuffled-sequences growing-graph mixed-samples",
        "warmup-never-ends": "long-warm-up rate-too-low",
        "mask-inverted": "inverted-mask lost-inputs later-inputs-seen unread-inputs reversed-loss",
        "kl-weight-too-large": "outweighed-error",
        "graph-cut-by-sample": "cut-graph",
        # of a fifth set, by somebody who knew no rule either: written down before they ran, but for
        # cut-graph of loss-rebuilt and the kinds that came after
        "ratio-inverted": "reversed-policy reversed-loss maximised-loss",
        "wrong-reduction": "outweighed-error",
        "timestep-mismatch": "unread-inputs drawn-twice",
        "decoder-input-not-shifted": "copied-targets",
        "target-scale": "bounded-output out-of-reach unscaled-targets",
        "wrong-softmax-dimension": "mixed-samples unnormalised-attention",
        "kl-input-not-log": "unshared-probabilities raw-output unsuited-closing",
        "second-derivative-without-graph": "cut-graph",
        "sign-error": "reversed-loss",
        "too-strong-decay": "strong-weight-decay harmful-decay",
        "positives-misaligned": "unrelated-targets identical-pair unrelated-pairs",
        "reads-padding-position": "unread-inputs lost-inputs read-padding",
        "view-scrambles": "mixed-samples lost-inputs",
        "broadcasting-shapes": "spread-shapes spread-targets",
        "generator-detached": "cut-graph no-gradients-arrive",
        "loss-rebuilt": "rebuilt-loss cut-graph no-gradients-arrive",
        "ema-direction": "overwritten-weights",
        "clip-before-unscale": "scaled-gradients",
        "window-longer-than-epoch": "zeroed-before-step zeroed-between-batches no-step",
        "weights-not-loaded": "nothing-loaded",
        "unfrozen-after-optimizer": "left-out-parameters other-parameters",
        "scheduler-interval": "long-warm-up rate-too-low",
        "layers-in-plain-list": "left-out-parameters unregistered-weights",
        "attention-not-causal": "later-inputs-seen",
        "mask-not-augmented": "unrelated-targets",
        "samples-not-shuffled": "one-class-batches sorted-samples",
        "softmax-over-singleton": "unnormalised-attention constant-output stuck-weights "
        "no-gradient",
        "relu-on-output": "bounded-output out-of-reach dead-units",
        "batchnorm-momentum": "stale-statistics untouched-statistics slow-statistics",
        "warmup-longer-than-training": "long-warm-up rate-too-low",
        "never-back-to-train": "evaluation-mode untouched-statistics stale-statistics",
        "batch-first-omitted": "mixed-samples",
        "coupling-mask-not-alternated": "unchanged-inputs",
        "adapted-weights-unused": "unused-derivative",
        "edges-reversed": "reversed-edges",
        "temperature-inverted": "narrow-scores",
        "state-not-carried": "forgotten-state",
        "class-weights-inverted": "reversed-class-weights",
        "curriculum-never-advances": "longer-than-trained",
        "data-changed-in-place": "rewritten-data",
        "closure-does-not-recompute": "unrecomputed-closure",
        "replay-stores-references": "unmoved-states",
        "best-state-by-reference": "nothing-loaded",
        "entropy-sign": "minimised-entropy",
    }.items()
}


def scripts(kinds: list[str], split: str) -> Iterator[tuple[Path, dict[str, Any], str]]:
    """Files with their entries in the index, and which of three roles they play."""
    for entry in entries():
        if (not kinds or entry["kind"] in kinds) and (not split or entry["split"] == split):
            for metric, file in paths(entry).items():
                role = metric.removeprefix("metric_") if entry["fault"] else "healthy"
                yield file, entry, role


MADE_UP = 0.8  # of the difference between a faulty and a patched metric, that makes a cure
UNDER = """
import sys
from sigmascope.diagnosis.scripts import interventions as made
from sigmascope.diagnosis.scripts.running import Job, Script, run_here
file, name = sys.argv[1:]
word, _, factor = name.partition(" x ")
def every(kind):
    return [k for one in kind.__subclasses__() for k in (one, *every(one))]
of_terms = (made.LighterTerm, made.HeavierTerm)
kinds = [k() for k in every(made.Intervention) if k not in of_terms]
class Lighter(made.Intervention):
    def compared(self, name, place, loss):
        if name == word and loss.requires_grad:
            loss.register_hook(lambda g: g * float(factor))
if word == "rate":
    how = made.ScaledRate(factor=float(factor))
else:
    how = Lighter() if factor else next(k for k in kinds if k.name == word)
run = run_here(Job(Script(file), 10**9, 600.0, intervention=how))
sys.exit(run.error is not None)
"""


def _cured(found: Any, script: Any, entry: dict[str, Any]) -> tuple[str, float]:
    """What was done, and the share that it makes up for of what the patch is better by."""
    from sigmascope.diagnosis.scripts.patches import first_change

    helps = {a.name for a in found.cures()}
    proofs = {f.name: [r.form for r in f.evidence if r.form in helps] for f in found.findings}
    first = next((f for f in found.findings if f.name in found.diffs or proofs[f.name]), None)
    lines = [first] if first is not None and first.name in found.diffs else []
    changed = first_change(found.run, lines)
    with tempfile.TemporaryDirectory() as folder:
        try:
            if changed is not None:
                (Path(folder) / "changed.py").write_text(changed)
                what, value = "lines", reached(Path(folder) / "changed.py")[1]
            elif found.cures():
                what = found.cures()[0].name if first is None else proofs[first.name][-1]
                words = [sys.executable, "-c", UNDER, script.target, what]
                done = subprocess.run(
                    words, cwd=folder, capture_output=True, text=True, timeout=120, check=True
                )
                value = float(done.stdout.split("\n")[-2].split()[2])
            else:
                return "nothing", 0.0
        except Exception as error:  # noqa: BLE001 (a cure that breaks the script is none)
            return f"broken by {type(error).__name__}", 0.0
    faulty, patched = entry["metric_faulty"], entry["metric_patched"]
    if not math.isfinite(faulty):
        return what, float(math.isfinite(value))
    return what, (value - faulty) / (patched - faulty)


def said_of(job: tuple[Path, dict[str, Any], str, float, bool]) -> tuple[str, str, Any]:
    """Role, name, and what was found, or the refusal."""
    from sigmascope.core.guard import Refusal
    from sigmascope.diagnosis.scripts import Script, diagnose_script

    file, entry, role, seconds, cure = job
    start = time.perf_counter()
    try:
        script = Script(str(file), tuple(entry.get("arguments", ())), "/tmp")
        found = diagnose_script(script, seconds=seconds, output="/dev/null")
    except Refusal as reason:
        return role, entry["name"], str(reason)
    names = [(f.severity, f.name, f.site) for f in found.findings]
    cures = [a.name for a in found.cures()]
    spent = time.perf_counter() - start
    cured = _cured(found, script, entry) if cure and role == "faulty" else None
    return role, entry["name"], (names, cures, spent, cured)


def main() -> None:
    """Run them, one line each, with the shares at the end."""
    ask = argparse.ArgumentParser(description=__doc__)
    ask.add_argument("kinds", nargs="*")
    ask.add_argument(
        "--split", default="", choices=["", "tune", "report", "unseen", "fresh", "held"]
    )
    ask.add_argument("--seconds", type=float, default=30.0)
    ask.add_argument("--role", default="", choices=["", "faulty", "patched", "healthy"])
    ask.add_argument("--jobs", type=int, default=1)
    ask.add_argument("--cure", action="store_true")
    given = ask.parse_args()
    chosen = [
        (file, entry, role, given.seconds, given.cure)
        for file, entry, role in scripts(given.kinds, given.split)
        if not given.role or role == given.role
    ]
    entries = {(role, entry["name"]): entry for _, entry, role, *_ in chosen}
    counts: dict[str, list[int]] = {}
    with ProcessPoolExecutor(given.jobs) as pool:
        for role, name, found in pool.map(said_of, chosen):
            entry = entries[role, name]
            if isinstance(found, str):
                print(f"{role:8} {name:34} {entry['fault']:28} REFUSED {found[:150]}", flush=True)
                names, cured = [], None
            else:
                names, cures, seconds, cured = found
                told = " ".join(f"{s[0].upper()}:{n}@{at}" for s, n, at in names) or "nothing"
                helped = f" | helps: {', '.join(cures)}" if cures else ""
                if cured:
                    helped += f" | {cured[0]} makes up for {cured[1]:.2f}"
                print(
                    f"{role:8} {name:34} {entry['fault']:28} {told}{helped} ({seconds:.0f} s)",
                    flush=True,
                )
            worst = {s for s, _, _ in names}
            if role == "faulty":
                causes = CAUSES.get(entry["fault"], frozenset({entry["fault"]}))
                order = [n for _, n, _ in names]
                hits = (
                    ("faulty: cause first", bool(order[:1]) and order[0] in causes),
                    ("faulty: cause in three", not causes.isdisjoint(order[:3])),
                    ("faulty: something said", bool(order)),
                )
                if given.cure:
                    hits += (("faulty: cured", cured is not None and cured[1] >= MADE_UP),)
            else:
                hits = (
                    (f"{role}: an error", "error" in worst),
                    (f"{role}: a warning or an error", bool(worst & {"error", "warning"})),
                )
            for word, hit in hits:
                counts.setdefault(word, []).append(hit)
    for word, hits in counts.items():
        print(f"{word:34} {sum(hits)} of {len(hits)}")


if __name__ == "__main__":
    main()
