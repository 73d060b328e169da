"""Whatever something reaches, put back to what it was."""

import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from types import FrameType
from typing import Any

from sigmascope.probes.execution.reachable_state import Reach
from sigmascope.probes.execution.tensor_state import Keepsake, keepsakes, leave_alone
from sigmascope.probes.samples.batches import RUNS

Undo = Callable[[], None]


@contextmanager
def as_found(thing: Any, *, weights: bool = True) -> Iterator[None]:
    """Leave everything that something reaches as it was, also after an error or Ctrl-C.

    Unlike `freeze.still` it changes no mode meanwhile, and no setting of the process is put back.

    Args:
        thing: A module, any object that may keep numbers (a loss, say), or what was found from one.
        weights: Whether parameters and gradients get their values back too.
    """
    reach = thing if isinstance(thing, Reach) else Reach(thing)
    kept, runs = _kept(reach, weights=weights), RUNS.count
    try:
        yield
    finally:
        _give_back(reach, kept, runs)


@contextmanager
def uninterrupted() -> Iterator[None]:
    """Let Ctrl-C wait until the block is over, so that it ends no putting back half-way."""
    before = signal.getsignal(signal.SIGINT)
    if threading.current_thread() is not threading.main_thread() or not callable(before):
        yield
        return
    came: list[tuple[int, FrameType | None]] = []
    signal.signal(signal.SIGINT, lambda number, frame: came.append((number, frame)))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
        if came:
            before(*came[-1])


def _kept(reach: Reach, *, weights: bool) -> list[Keepsake]:
    own = [p for m in reach.modules for p in m.parameters(recurse=False)]
    steady = {id(t) for p in own for t in (p, p.grad if p.is_leaf else None)}
    fluid = frozenset(id(t) for t in reach.tensors if id(t) not in steady)
    return keepsakes([t for t in reach.tensors if weights or id(t) in fluid], fluid)


def _give_back(reach: Reach, kept: list[Keepsake], runs: int) -> None:
    alone: list[Keepsake] = []
    with uninterrupted():
        ran = RUNS.count > runs
        every([reach.give_back, *(partial(_note, one, alone) for one in kept)])
        if ran:
            leave_alone(alone)


def every(undos: Sequence[Undo]) -> None:
    """All of them, also if one fails; the first failure is raised at the end."""
    failed: list[Exception] = []
    for undo in undos:
        try:
            undo()
        except Exception as error:  # noqa: BLE001 (raised below, once all the rest is back)
            failed.append(error)
    if failed:
        raise failed[0]


def _note(one: Keepsake, alone: list[Keepsake]) -> None:
    if not one.give_back():
        alone.append(one)
