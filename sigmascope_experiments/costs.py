"""What the rows of a figure will cost, told from a few steps of some of them."""

import json
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import pairwise
from statistics import fmean, median

import torch
from torch.optim.optimizer import register_optimizer_step_post_hook

from sigmascope.core.guard import time_words
from sigmascope_experiments.figures import Row, Task

PASS, PASSES = 3, 2  # steps of a pass and passes of a row that is timed
PATIENCE = 60.0  # seconds after which no further kind of row is timed
ALIKE = {"rate", "seed", "data", "times"}  # what a row is, not what it costs


@dataclass(frozen=True, slots=True)
class Cost:
    """Of rows that train networks.

    Attributes:
        steps: Of training, of each row.
        seconds: Of each row, estimated.
        timed: Kinds of rows of which one was timed.
        kinds: Kinds of rows in all.
        device: Where.
    """

    steps: tuple[int, ...]
    seconds: tuple[float, ...]
    timed: int
    kinds: int
    device: str

    def __str__(self) -> str:
        rows = len(self.seconds)
        least, most = time_words(min(self.seconds)), time_words(max(self.seconds))
        each = f"about {most}" if least == most else f"about {least} to {most}"
        how = "each kind" if self.timed == self.kinds else f"{self.timed} of {self.kinds} kinds"
        return (
            f"{rows} row{'s' * (rows > 1)} of {each} each on {self.device}: "
            f"{time_words(sum(self.seconds))}, one after another, for {sum(self.steps):,} steps of "
            f"training (from {PASS * PASSES} steps of a row of {how}). Stop at any time: finished "
            "rows are kept, and the same command goes on."
        )


def cost_of(todo: list[Task], row: Callable[[Task], Row], device: torch.device, name: str) -> Cost:
    """Steps and seconds of rows, from a few steps of one row of each kind.

    Rows of a kind differ in their rate and seed alone. The first row is timed, and the first of
    each further kind while `PATIENCE` lasts; others are taken to need as much a step as those on
    average. What is computed for it is thrown away.

    Args:
        todo: One task or more, each with `steps`, or `epochs`, `samples` and `batch`.
        row: Computes one.
        device: Where it is computed.
        name: Of the device.
    """
    first = {_kind(task): task for task in reversed(todo)}
    order, begun = list(dict.fromkeys(map(_kind, todo))), time.monotonic()
    found: dict[str, tuple[float, float, float]] = {}
    for kind in order:
        if found and time.monotonic() - begun > PATIENCE:
            break
        found[kind] = _timed(first[kind], row, device)
    mean = tuple(fmean(part) for part in zip(*found.values(), strict=True))
    seconds = []
    for task in todo:
        around, step, between = found.get(_kind(task), mean)
        seconds.append(around + step * steps_of(task) + between * (task.get("epochs", 1) - 1))
    return Cost(tuple(map(steps_of, todo)), tuple(seconds), len(found), len(order), name)


def steps_of(task: Task) -> int:
    """Steps of training."""
    if "steps" in task:
        return task["steps"]
    return task["epochs"] * -(-task["samples"] // task["batch"])


def _kind(task: Task) -> str:
    return json.dumps({k: v for k, v in task.items() if k not in ALIKE}, sort_keys=True)


def _short(task: Task) -> Task:
    """The same with a few steps, and of the test as large a part."""
    if "steps" in task:
        return {**task, "steps": PASS * PASSES}
    samples = min(PASS * task["batch"], task["samples"])
    short = {**task, "samples": samples, "epochs": min(PASSES, task["epochs"])}
    if "test" in task:
        short["test"] = max(2, task["test"] * samples // task["samples"])
    return short


def _timed(
    task: Task, row: Callable[[Task], Row], device: torch.device
) -> tuple[float, float, float]:
    """Seconds around the training of a row, of a step, and between two epochs."""
    short, begun = _short(task), time.monotonic()
    with _stamped(device) as stamps:
        row(short)
    ended = time.monotonic()
    apart = [b - a for a, b in pairwise(stamps)]
    border = len(stamps) // short["epochs"] - 1 if short.get("epochs", 1) > 1 else len(apart)
    within = [t for k, t in enumerate(apart) if k != border]
    step = median(within[1:] or within or [0.0])
    between = max(0.0, apart[border] - step) if border < len(apart) else 0.0
    around = ended - begun - (stamps[-1] - stamps[0] if stamps else 0.0) - step
    return max(0.0, around), step, between


@contextmanager
def _stamped(device: torch.device) -> Iterator[list[float]]:
    """When each step of any optimizer ended."""
    stamps: list[float] = []

    def stamp(*_: object) -> None:
        torch.zeros(1, device=device).tolist()  # waits for what the device has still to do
        stamps.append(time.monotonic())

    handle = register_optimizer_step_post_hook(stamp)
    try:
        yield stamps
    finally:
        handle.remove()
