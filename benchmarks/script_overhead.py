"""What watching costs a training script, and that it changes nothing of it.

OMP_NUM_THREADS=1 python -m benchmarks.script_overhead            # all scripts, patched and healthy
OMP_NUM_THREADS=1 python -m benchmarks.script_overhead gan vae    # kinds

Each script is run in turns, bare and watched, for 256 steps, each time in a fork of one process
that has imported torch: with a hook that counts steps alone, and watched as `sigmascope diagnose`
watches its first run. Weights must be the same to the last bit. Times are of the processor, and
ratios of watched to bare: medians from one step to the next of steps that are recorded (the first
sixteen) and of those that are looked at (to the 64th); of later ones, of which a few are, the sum.
"""

import argparse
import hashlib
import multiprocessing
import os
import statistics
import time
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

import torch
from torch.optim.optimizer import register_optimizer_step_post_hook

from benchmarks.script_diagnoses import scripts
from sigmascope.diagnosis.scripts import Script
from sigmascope.diagnosis.scripts.observer import AWAKE, KEPT, Observer, Stopped
from sigmascope.diagnosis.scripts.running import seeded, started

STEPS = 256
TURNS = 3


class Counter:
    """Counts the steps of optimizers and ends a script behind the last, with its weights."""

    def __init__(self) -> None:
        self.times, self.weights = [time.process_time()], ""

    def __call__(self, optimizer: torch.optim.Optimizer, *_: Any) -> None:
        self.times.append(time.process_time())
        if len(self.times) > STEPS:
            whole = hashlib.sha256()
            for group in optimizer.param_groups:
                for p in group["params"]:
                    whole.update(p.detach().cpu().contiguous().view(torch.uint8).numpy().tobytes())
            self.weights = whole.hexdigest()
            raise Stopped


def run(script: Script, watched: bool, says: Any) -> None:
    """Run a script to its sixtieth step, in a process that was forked for it."""
    with Path(os.devnull).open("w") as nothing:
        os.dup2(nothing.fileno(), 1), os.dup2(nothing.fileno(), 2)
    count = Counter()
    with ExitStack() as stack:
        stack.enter_context(seeded(0))
        if watched:
            stack.enter_context(Observer(recorded=True))
        hook = register_optimizer_step_post_hook(count)
        with suppress(Stopped, SystemExit):
            started(script)
        hook.remove()
    gaps = [b - a for a, b in zip(count.times[1:], count.times[2:], strict=False)]
    says.send((count.weights, gaps))


def apart(script: Script, watched: bool) -> tuple[str, list[float]]:
    """Weights and times of a run."""
    mine, theirs = multiprocessing.Pipe(duplex=False)
    process = multiprocessing.get_context("fork").Process(
        target=run, args=(script, watched, theirs)
    )
    process.start()
    theirs.close()
    try:
        return mine.recv()
    except EOFError:
        return "", []
    finally:
        process.join()


def cost(watched: list[list[float]], bare: list[list[float]], of: Any, part: slice) -> float:
    """The ratio of the least of several turns."""
    return min(of(gaps[part]) for gaps in watched) / min(of(gaps[part]) for gaps in bare)


def main() -> None:
    """Run them, one line each, with the medians at the end."""
    ask = argparse.ArgumentParser(description=__doc__)
    ask.add_argument("kinds", nargs="*")
    given = ask.parse_args()
    median, later = statistics.median, slice(AWAKE, None)
    parts = {
        "recorded": (median, slice(0, KEPT - 1)),
        "looked at": (median, slice(KEPT + 1, AWAKE - 1)),
        "later": (sum, later),
    }
    found: dict[str, list[float]] = {word: [] for word in parts}
    alike = seen = 0
    for file, entry, role in scripts(given.kinds, ""):
        if role == "faulty":
            continue
        script = Script(str(file), tuple(entry.get("arguments", ())))
        runs = [(apart(script, False), apart(script, True)) for _ in range(TURNS)]
        if not all(weights for pair in runs for weights, _ in pair):
            print(f"{entry['name']:34} fewer than {STEPS} steps", flush=True)
            continue
        own, watched = ([gaps for _, gaps in side] for side in zip(*runs, strict=True))
        same = len({weights for pair in runs for weights, _ in pair}) == 1
        seen, alike = seen + 1, alike + same
        for word, (of, part) in parts.items():
            found[word].append(cost(watched, own, of, part))
        ratios = ", ".join(f"{word} x {ratio[-1]:.2f}" for word, ratio in found.items())
        step = 1e3 * min(median(gaps) for gaps in own)
        print(
            f"{entry['name']:34} {'same' if same else 'DIFFERENT':9} {ratios}, {step:.2f} ms",
            flush=True,
        )
    print(f"the same to the last bit: {alike} of {seen}")
    for word, ratios in found.items():
        high = sorted(ratios)[int(0.9 * (len(ratios) - 1))]
        print(f"{word}: median x {median(ratios):.3f}, nine in ten below x {high:.3f}")


if __name__ == "__main__":
    main()
