"""A watch that sleeps and wakes within one training: its cost to a tenth of a per cent.

Two models are never as fast as one another, for where one lies in memory moves it by a per cent.
Here a single one is trained, in stretches of which half have its watch asleep: its hook put aside,
its clock standing still. The invariant: a stretch ends with no look open, so that whatever a look
costs falls to the watch, but for the caches that it leaves to the first step of the next stretch,
which is not timed in either kind.
"""

import random
import statistics
from collections.abc import Callable
from pathlib import Path

from torch import nn

from benchmarks._arms import Arm, Data, slots
from benchmarks._watchers import Watcher

GROUPS = 20  # of pairs of stretches, whose shares tell the error
WARM = 0.2  # of the time, before anything is timed
Make = Callable[..., Watcher]
Stretch = tuple[float, float, int]  # wall time, processor time, steps


def shares(
    make: Make, model: nn.Module, data: Data, seconds: float, steps: int, where: Path
) -> list[float]:
    """What a watch costs beyond plain steps, in per cent: wall, processor, and its error.

    Args:
        make: Of the watch.
        model: Copied.
        data: Batches that come again.
        seconds: In all.
        steps: Of a stretch.
        where: A folder for its run file.
    """
    (awake,) = slots(model, 1)
    awake.watcher = make(awake.model, awake.optimizer, data[0], awake.clock, where / "a.run")
    asleep = Arm(awake.model, awake.optimizer)
    while awake.clock() < WARM * seconds:
        _until_read(awake, data, steps)
    draw, with_it, without = random.Random(0), list[Stretch](), list[Stretch]()
    while awake.clock() + asleep.clock() < seconds or len(without) < GROUPS:
        first = draw.random() < 1 / 2
        if first:
            without.append(_put_aside(asleep, data, steps))
        with_it.append(_until_read(awake, data, steps))
        if not first:
            without.append(_put_aside(asleep, data, steps))
    wall, cpu = _over(with_it, without)
    apart = [_over(with_it[i::GROUPS], without[i::GROUPS])[1] for i in range(GROUPS)]
    return [wall, cpu, statistics.stdev(apart) / GROUPS**0.5]


def _until_read(arm: Arm, data: Data, steps: int) -> Stretch:
    """A stretch that is watched, to the end of a look that is open."""
    arm.wall = arm.cpu = 0.0
    arm.run(data, steps)
    made = steps
    while _listens(arm):
        arm.timed(data, 1)
        made += 1
    return arm.wall, arm.cpu, made


def _put_aside(arm: Arm, data: Data, steps: int) -> Stretch:
    """A stretch whose watch sleeps."""
    hooks = arm.optimizer._optimizer_step_post_hooks
    kept = dict(hooks)
    hooks.clear()
    arm.wall = arm.cpu = 0.0
    arm.run(data, steps)
    hooks.update(kept)
    return arm.wall, arm.cpu, steps


def _listens(arm: Arm) -> bool:
    """Whether the next step is looked at, of which hooks tell that are there for it alone."""
    if arm.optimizer._optimizer_step_pre_hooks:
        return True
    return any(m._forward_hooks or m._forward_pre_hooks for m in arm.model.modules())


def _over(awake: list[Stretch], asleep: list[Stretch]) -> list[float]:
    """Per cent that steps take awake beyond what they take asleep: wall and processor time."""
    (*with_it, steps), (*without, plain) = (map(sum, zip(*s, strict=True)) for s in (awake, asleep))
    return [100 * (a / steps / (b / plain) - 1) for a, b in zip(with_it, without, strict=True)]
