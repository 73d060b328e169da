"""What is said of training scripts that are run as they are: faulty, patched and healthy ones.

OMP_NUM_THREADS=1 python -m benchmarks.script_diagnoses --split tune      # or report
OMP_NUM_THREADS=1 python -m benchmarks.script_diagnoses gan vae           # kinds

The scripts lie in `benchmarks/scripts`, with an index of their faults. A cause stands first where
the name of the first finding is one by which a reader would know the patch: `CAUSES`, by hand.
"""

import argparse
import time
from collections.abc import Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

from benchmarks.scripts_check import entries, paths

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
        "reversed-loss": "reversed-loss reversed-policy maximised-loss unbounded-loss",
        "same-batch": "repeated-batch",
        "scheduler-too-fast": "dwindling-rate",
        "softmax-dimension": "mixed-samples unsuited-closing unnormalised-attention",
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
    }.items()
}


def scripts(kinds: list[str], split: str) -> Iterator[tuple[Path, dict[str, Any], str]]:
    """Files with their entries in the index, and which of three roles they play."""
    for entry in entries():
        if (not kinds or entry["kind"] in kinds) and (not split or entry["split"] == split):
            for metric, file in paths(entry).items():
                role = metric.removeprefix("metric_") if entry["fault"] else "healthy"
                yield file, entry, role


def said_of(job: tuple[Path, dict[str, Any], str, float]) -> tuple[str, str, Any]:
    """Role, name, and what was found, or the refusal."""
    from sigmascope.gate import Refusal
    from sigmascope.scripts import Script, diagnose_script

    file, entry, role, seconds = job
    start = time.perf_counter()
    try:
        script = Script(str(file), tuple(entry.get("arguments", ())), "/tmp")
        found = diagnose_script(script, seconds=seconds, output="/dev/null")
    except Refusal as reason:
        return role, entry["name"], str(reason)
    names = [(f.severity, f.name, f.site) for f in found.findings]
    cures = [a.name for a in found.cures()]
    return role, entry["name"], (names, cures, time.perf_counter() - start)


def main() -> None:
    """Run them, one line each, with the shares at the end."""
    ask = argparse.ArgumentParser(description=__doc__)
    ask.add_argument("kinds", nargs="*")
    ask.add_argument("--split", default="", choices=["", "tune", "report"])
    ask.add_argument("--seconds", type=float, default=30.0)
    ask.add_argument("--role", default="", choices=["", "faulty", "patched", "healthy"])
    ask.add_argument("--jobs", type=int, default=1)
    given = ask.parse_args()
    chosen = [
        (file, entry, role, given.seconds)
        for file, entry, role in scripts(given.kinds, given.split)
        if not given.role or role == given.role
    ]
    entries = {(role, entry["name"]): entry for _, entry, role, _ in chosen}
    counts: dict[str, list[int]] = {}
    with ProcessPoolExecutor(given.jobs) as pool:
        for role, name, found in pool.map(said_of, chosen):
            entry = entries[role, name]
            if isinstance(found, str):
                print(f"{role:8} {name:34} {entry['fault']:28} REFUSED {found[:150]}", flush=True)
                names = []
            else:
                names, cures, seconds = found
                told = " ".join(f"{s[0].upper()}:{n}@{at}" for s, n, at in names) or "nothing"
                helped = f" | helps: {', '.join(cures)}" if cures else ""
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
