"""Carrying a plan out: on one core or many, with every result kept as it comes.

The idea: what is to be done is a list of small values, each of which any process can carry out and
whose result depends on nothing else, not on threads, order or machine. The invariant: a result is
in the run file before the next is asked for, and what is in the run file is not done again.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from sigmascope.gate import Refusal, trim
from sigmascope.records import Reading, Skipped
from sigmascope.scanning.adapters import measure_product
from sigmascope.scanning.cuts import Cut
from sigmascope.scanning.ends import Ends
from sigmascope.scanning.holding import hold, meet
from sigmascope.scanning.measuring import Measured, ends_alone, measure
from sigmascope.scanning.operators import operator_items
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
    ends: dict[int, Ends] = {}
    found = []
    with _one_thread():
        for job in batch.jobs:
            found.append(_run(job, ends))
            trim()
    return found


def batches(jobs: Sequence[Job]) -> list[Batch]:
    """Jobs of similar cost together, the dearest first, so that no process waits at the end.

    Matrices that meet come with what is asked of both, so that neither is read twice.
    """
    found: list[Batch] = []
    some: list[Job] = []
    total = 0.0
    costs = [(sum(map(work, group)), group) for group in _groups(jobs)]
    for cost, group in sorted(costs, key=lambda pair: (-pair[0], pair[1][0].index)):
        some += group
        total += cost
        if total >= BATCH:
            found.append(Batch(tuple(some)))
            some, total = [], 0.0
    return [*found, Batch(tuple(some))] if some else found


def _groups(jobs: Sequence[Job]) -> list[list[Job]]:
    """Jobs that share a matrix, tasks before pairs."""
    home: dict[int, int] = {}  # of a matrix, the group that it is in

    def root(i: int) -> int:
        while home.setdefault(i, i) != i:
            i = home[i]
        return i

    meetings = [job for job in jobs if isinstance(job, Pair) and job.kind == "meet"]
    for pair in meetings:
        one, other = (root(task.index) for task in pair.tasks)
        home[max(one, other)] = min(one, other)
    groups: dict[int, list[Job]] = defaultdict(list)
    for job in sorted(jobs, key=lambda job: job.index):
        met = isinstance(job, Pair) and job.kind == "meet"
        groups[root(job.tasks[0].index if isinstance(job, Pair) and met else job.index)].append(job)
    return [*groups.values()]


def work(job: Job) -> float:
    """Expected multiplications."""
    return job.work if isinstance(job, Pair) else job.matrix.work


def results(jobs: Sequence[Job], mapper: Mapper) -> Iterator[Measured]:
    """What the jobs come to, as it comes."""
    for many in mapper(run_batch, batches(jobs)):
        yield from many


def _run(job: Job, ends: dict[int, Ends]) -> Measured:
    try:
        return _pair(job, ends) if isinstance(job, Pair) else _task(job, ends)
    except Refusal as error:  # the file has gone or changed, or lies: the others may be sound
        why = str(error)
    except MemoryError as error:
        why = f"there is not enough memory ({error})"
    except OSError as error:  # a disk, or a network
        why = f"it could not be read: {error}"
    except RuntimeError as error:  # torch says so when there is none, or a solver fails
        why = f"torch gave up: {str(error).splitlines()[0]}"
    site = job.site if isinstance(job, Pair) else job.matrix.site
    return Measured(job.index, (), None, (Skipped(site, "all of it", why),), None, failed=True)


def _task(task: Task, ends: dict[int, Ends]) -> Measured:
    if isinstance(task.cut, Product):
        return measure_product(task, task.cut)
    found, ends[task.index] = measure(task, task.cut.read())
    if task.grid and task.matrix.form == "kernel":
        found = _operated(found, task, task.cut)
    if not task.note:
        return found
    return replace(found, skipped=(Skipped(task.matrix.site, "parts", task.note), *found.skipped))


def _operated(found: Measured, task: Task, cut: Cut) -> Measured:
    """What was measured of a kernel, with what its convolution is as an operator."""
    items = [*operator_items(task.matrix, cut.stored.read(), task.grid)]
    read = (r for r in items if isinstance(r, Reading) and r.quantity in task.wanted)
    skipped = (item for item in items if isinstance(item, Skipped))
    return replace(found, readings=(*found.readings, *read), skipped=(*found.skipped, *skipped))


def _pair(pair: Pair, ends: dict[int, Ends]) -> Measured:
    if pair.kind == "meet":
        found = [*meet(pair, *(_ends(task, ends) for task in pair.tasks))]
    else:
        found = [*hold(pair, *(_matrix(task) for task in pair.tasks))]
    readings = tuple(item for item in found if isinstance(item, Reading))
    skipped = tuple(item for item in found if isinstance(item, Skipped))
    return Measured(pair.index, readings, None, skipped, None)


def _ends(task: Task, ends: dict[int, Ends]) -> Ends:
    """As they were left by the task, or as it would leave them, bit for bit."""
    if task.index not in ends:  # the task was done before the scan was cut off
        ends[task.index] = ends_alone(task, _matrix(task))
    return ends[task.index]


def _matrix(task: Task) -> Tensor:
    cut = task.cut
    if not isinstance(cut, Product):
        return cut.read()
    assert cut.base is not None, "a change of low rank alone is never written out"
    change = cut.left.read().float() @ cut.right.read().float()
    return cut.base.read().float() + cut.scaling * change


@contextmanager
def _one_thread() -> Iterator[None]:
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)
