"""Carrying a plan out: on one core or many, with every result kept as it comes.

The idea: what is to be done is a list of small values, each of which any process can carry out and
whose result depends on nothing else, not on threads, order or machine. The invariant: a result is
in the run file before the next is asked for, and what is in the run file is not done again.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch

from sigmascope.gate import Refusal
from sigmascope.records import Reading, Skipped
from sigmascope.scanning.adapters import measure_product
from sigmascope.scanning.holding import hold
from sigmascope.scanning.measuring import Measured, measure
from sigmascope.scanning.tasks import Pair, Product, Task

BATCH = 5e9  # multiplications: about a second, so that small matrices travel together

Job = Task | Pair
Mapper = Callable[[Callable[[Any], Any], Iterable[Any]], Iterable[Any]]


@dataclass(frozen=True, slots=True)
class Batch:
    """Jobs that are carried out one after the other by one process."""

    jobs: tuple[Job, ...]


def run_batch(batch: Batch) -> list[Measured]:
    """Carry out jobs, on one thread, so that results are the same everywhere."""
    with _one_thread():
        return [_run(job) for job in batch.jobs]


def batches(jobs: Sequence[Job]) -> list[Batch]:
    """Jobs of similar cost together, the dearest first, so that no process waits at the end."""
    found: list[Batch] = []
    some: list[Job] = []
    total = 0.0
    for job in sorted(jobs, key=lambda job: (-work(job), job.index)):
        some.append(job)
        total += work(job)
        if total >= BATCH:
            found.append(Batch(tuple(some)))
            some, total = [], 0.0
    return [*found, Batch(tuple(some))] if some else found


def work(job: Job) -> float:
    """Expected multiplications."""
    return job.work if isinstance(job, Pair) else job.matrix.work


def results(jobs: Sequence[Job], mapper: Mapper) -> Iterator[Measured]:
    """What the jobs come to, as it comes."""
    for many in mapper(run_batch, batches(jobs)):
        yield from many


def _run(job: Job) -> Measured:
    try:
        return _pair(job) if isinstance(job, Pair) else _task(job)
    except Refusal as error:  # the file has gone or changed, or lies: the others may be sound
        why = str(error)
    except MemoryError as error:
        why = f"there is not enough memory ({error})"
    except RuntimeError as error:  # torch says so when there is none, or a solver fails
        why = f"torch gave up: {str(error).splitlines()[0]}"
    site = job.site if isinstance(job, Pair) else job.matrix.site
    return Measured(job.index, (), None, (Skipped(site, "all of it", why),), None)


def _task(task: Task) -> Measured:
    if isinstance(task.cut, Product):
        return measure_product(task, task.cut)
    return measure(task, task.cut.read())


def _pair(pair: Pair) -> Measured:
    one, other = (cut.read() for cut in pair.cuts)
    found = list(hold(pair, one, other))
    readings = tuple(item for item in found if isinstance(item, Reading))
    skipped = tuple(item for item in found if isinstance(item, Skipped))
    return Measured(pair.index, readings, None, skipped, None)


@contextmanager
def _one_thread() -> Iterator[None]:
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)
