"""What watching costs a training script, and that it changes nothing of it.

OMP_NUM_THREADS=1 python -m benchmarks.script_overhead            # all scripts, patched and healthy
OMP_NUM_THREADS=1 python -m benchmarks.script_overhead gan vae    # kinds

Each script is run twice to its sixtieth step, each time in a fork of one process that has imported
torch: with a hook that counts steps alone, and watched as `sigmascope diagnose` watches its first
run. Weights must be the same to the last bit. Times are medians from one step to the next, of steps
that are recorded (the first sixteen) and of those behind them, as ratios of watched to bare.
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
from sigmascope.scripts import Script
from sigmascope.scripts.observer import KEPT, Observer, Stopped
from sigmascope.scripts.running import seeded, started

STEPS = 60


class Counter:
    """Counts the steps of optimizers and ends a script behind the last, with its weights."""

    def __init__(self) -> None:
        self.times, self.weights = [time.perf_counter()], ""

    def __call__(self, optimizer: torch.optim.Optimizer, *_: Any) -> None:
        self.times.append(time.perf_counter())
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


def main() -> None:
    """Run them, one line each, with the medians at the end."""
    ask = argparse.ArgumentParser(description=__doc__)
    ask.add_argument("kinds", nargs="*")
    given = ask.parse_args()
    first, later, alike, seen = [], [], 0, 0
    for file, entry, role in scripts(given.kinds, ""):
        if role == "faulty":
            continue
        script = Script(str(file), tuple(entry.get("arguments", ())))
        (bare, own), (watched, gaps) = apart(script, False), apart(script, True)
        if not bare:
            print(f"{entry['name']:34} fewer than {STEPS} steps", flush=True)
            continue
        seen, alike = seen + 1, alike + (bare == watched)
        cost = lambda part, gaps=gaps, own=own: (
            statistics.median(gaps[part]) / statistics.median(own[part])
        )
        first.append(cost(slice(0, KEPT - 1)))
        later.append(cost(slice(KEPT + 1, None)))
        same = "same" if bare == watched else "DIFFERENT"
        print(
            f"{entry['name']:34} {same:9} recorded x {first[-1]:.2f}, later x {later[-1]:.2f}, "
            f"{1e3 * statistics.median(own):.2f} ms",
            flush=True,
        )
    print(f"the same to the last bit: {alike} of {seen}")
    for word, ratios in (("recorded", first), ("later", later)):
        high = sorted(ratios)[int(0.9 * (len(ratios) - 1))]
        print(f"{word}: median x {statistics.median(ratios):.3f}, nine in ten below x {high:.3f}")


if __name__ == "__main__":
    main()
