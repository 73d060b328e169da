"""`scan`: every matrix of a checkpoint, one at a time, on one core or many, kept as it comes."""

import base64
import os
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any

import numpy as np
import torch
from torch import Tensor

from sigmascope.core import guard
from sigmascope.core.guard import Progress, Refusal, door, printable, trim
from sigmascope.core.quantities import SCAN
from sigmascope.core.records import Layer, Matrix, Reading, Scan, ScanPlan, Skipped
from sigmascope.core.store import Run
from sigmascope.scanning.against import (
    candidates,
    hold,
    measure_product,
    meet,
    require_meant,
    versions,
)
from sigmascope.scanning.matrices import NameRule
from sigmascope.scanning.measuring import (
    MapEnds,
    Measured,
    ends_alone,
    measure_matrix,
    operator_items,
)
from sigmascope.scanning.planning import (
    Asked,
    MatrixPair,
    Origin,
    PlannedWork,
    Product,
    Settings,
    Task,
    one_thread,
    quantities_named,
    worked_out,
)

# ------------------------------------------------------------------------------
# What of a scan is in its run file already, and how the rest comes into it.


DONE, SKETCH = "done", "sketch"
SAME = "fingerprint"
SCANNED = "scan"


class Journal:
    """Results as they come, in memory and, where one is named, in a run file.

    Step 0 of the file says what is scanned and how; each result is a step of its own, numbered by
    its place in the plan from 1 on, so that a result is in the file whole or not at all.

    Args:
        plan: What is scanned.
        path: The run file; one that holds a part of the same scan is gone on with.

    Raises:
        Refusal: If the file holds something else.
    """

    def __init__(self, plan: ScanPlan, path: str | os.PathLike[str] | None) -> None:
        self.found: dict[int, Measured] = {}
        self.run = None if path is None else Run(path)
        if self.run is None:
            return
        settings = {SCANNED: plan.source, **plan.settings}
        begun = {row.record.name: row.record.value for row in self.run.about() if row.step == 0}
        if not begun and not self.run.steps():
            layers = [Layer(m.site, m.kind, m.depth, m.tensors) for m in plan.matrices]
            self.run.add(step=0, about=settings, layers=layers, views=(SCAN,))
            return
        if SCANNED not in begun:
            raise Refusal(
                f"`{self.run.path}` holds no scan: it is the run file of something else. Name "
                "another."
            )
        differing = [n for n in settings if n != SCANNED and begun.get(n) != settings[n]]
        if differing:
            # what a scan is of, or how it was made, where it is another
            if "against" in differing:
                was = f"{'with' if settings['against'] == 'no' else 'without'} `--against`"
            elif SAME in differing:
                name = printable(begun[SCANNED])
                was = f"of other files, of {name}, or of these before they changed"
            elif differing == ["matrices"]:
                was = (
                    f"of other matrices of {printable(begun[SCANNED])}, as when there was more "
                    "or less `--memory`, or another version of sigmascope"
                )
            else:
                was = f"with other `{differing[0]}`, {printable(begun.get(differing[0], 'none'))}"
            raise Refusal(
                f"`{self.run.path}` holds a scan {was}: ask for the same, or name another run file."
            )
        # the results of every step that is there
        readings, skipped, spectra, sketches = defaultdict(list), defaultdict(list), {}, {}
        for row in self.run.readings():
            readings[row.step].append(row.record)
        for row in self.run.skipped():
            skipped[row.step].append(row.record)
        for row in self.run.spectra():
            spectra[row.step] = row.record
        words = [row for row in self.run.about() if row.step > 0]
        for row in words:
            if row.record.name == SKETCH:
                numbers = np.frombuffer(base64.b64decode(row.record.value), "<f4")
                sketches[row.step] = torch.from_numpy(numbers.astype("=f4"))
        for step in sorted({row.step for row in words if row.record.name == DONE}):
            of = tuple(readings[step]), spectra.get(step), tuple(skipped[step]), sketches.get(step)
            self.found[step - 1] = Measured(step - 1, *of)

    def add(self, one: Measured) -> None:
        """Keep a result; when this returns, it is on the disk.

        One that failed, as of a file that went away, is not: a later scan tries it again.
        """
        self.found[one.index] = one
        if self.run is not None and not one.failed:
            about = {DONE: "1"}
            if one.sketch is not None:
                numbers = one.sketch.numpy().astype("<f4").tobytes()
                about[SKETCH] = base64.b64encode(numbers).decode("ascii")
            self.run.add(
                step=one.index + 1,
                readings=one.readings,
                spectra=() if one.spectrum is None else (one.spectrum,),
                skipped=one.skipped,
                about=about,
            )

    def missing(self, jobs: Iterable[Any]) -> list[Any]:
        """Those of the jobs that are not done yet."""
        return [job for job in jobs if job.index not in self.found]

    def close(self) -> None:
        """Let go of the file."""
        if self.run is not None:
            self.run.close()


# ------------------------------------------------------------------------------
# Carrying a plan out: on one core or many, with every result kept as it comes.
#
# The idea: what is to be done is a list of small values, each of which any process can carry out
# and whose result depends on nothing else, not on threads, order or machine. The invariant: a
# result is in the run file before the next is asked for, and what is in the run file is not done
# again.


BATCH = 5e9  # multiplications: about a second, so that small matrices travel together

Job = Task | MatrixPair
Mapper = Callable[[Callable[[Any], Any], Iterable[Any]], Iterable[Any]]


@dataclass(frozen=True, slots=True)
class Batch:
    """Jobs that are carried out one after the other by one process."""

    jobs: tuple[Job, ...]


def run_batch(batch: Batch) -> list[Measured]:
    """Carry out jobs, on one thread, so that results are the same everywhere."""
    ends: dict[int, MapEnds] = {}
    found = []
    with one_thread():
        for job in batch.jobs:
            found.append(_run(job, ends))
            trim(short=True)
    return found


def batches(jobs: Sequence[Job]) -> list[Batch]:
    """Jobs of similar cost together, the dearest first, so that no process waits at the end.

    Matrices that meet come with what is asked of both, so that neither is read twice.
    """
    # jobs that share a matrix, tasks before pairs
    home: dict[int, int] = {}  # of a matrix, the group that it is in

    def root(i: int) -> int:
        while home.setdefault(i, i) != i:
            i = home[i]
        return i

    meetings = [job for job in jobs if isinstance(job, MatrixPair) and job.kind == "meet"]
    for pair in meetings:
        one, other = (root(task.index) for task in pair.tasks)
        home[max(one, other)] = min(one, other)
    groups: dict[int, list[Job]] = defaultdict(list)
    for job in sorted(jobs, key=lambda job: job.index):
        met = isinstance(job, MatrixPair) and job.kind == "meet"
        first = job.tasks[0].index if isinstance(job, MatrixPair) and met else job.index
        groups[root(first)].append(job)
    found: list[Batch] = []
    some: list[Job] = []
    total = 0.0
    costs = [(sum(map(work, group)), group) for group in groups.values()]
    for cost, group in sorted(costs, key=lambda pair: (-pair[0], pair[1][0].index)):
        some += group
        total += cost
        if total >= BATCH:
            found.append(Batch(tuple(some)))
            some, total = [], 0.0
    return [*found, Batch(tuple(some))] if some else found


def work(job: Job) -> float:
    """Expected multiplications."""
    return job.work if isinstance(job, MatrixPair) else job.matrix.work


def results(jobs: Sequence[Job], mapper: Mapper) -> Iterator[Measured]:
    """What the jobs come to, as it comes."""
    for many in mapper(run_batch, batches(jobs)):
        yield from many


def _run(job: Job, ends: dict[int, MapEnds]) -> Measured:
    try:
        if not isinstance(job, MatrixPair):
            cut, matrix = job.cut, job.matrix
            if isinstance(cut, Product):
                return measure_product(job, cut)
            one, ends[job.index] = measure_matrix(job, cut.read())
            if job.grid and matrix.form == "kernel":
                # what was measured of a kernel, with what its convolution is as an operator
                items = [*operator_items(matrix, cut.stored.read(), job.grid)]
                read = (r for r in items if isinstance(r, Reading) and r.quantity in job.wanted)
                left = (item for item in items if isinstance(item, Skipped))
                one = replace(one, readings=(*one.readings, *read), skipped=(*one.skipped, *left))
            noted = (Skipped(matrix.site, "parts", job.note),) if job.note else ()
            return replace(one, skipped=(*noted, *one.skipped))
        if job.kind == "meet":
            for task in job.tasks:
                # what was done before the scan was cut off is the same, bit for bit
                if task.index not in ends:
                    ends[task.index] = ends_alone(task, _matrix(task))
            found = [*meet(job, *(ends[task.index] for task in job.tasks))]
        else:
            found = [*hold(job, *(_matrix(task) for task in job.tasks))]
        readings = tuple(item for item in found if isinstance(item, Reading))
        skipped = tuple(item for item in found if isinstance(item, Skipped))
        return Measured(job.index, readings, None, skipped, None)
    except Refusal as error:  # the file has gone or changed, or lies: the others may be sound
        why = str(error)
    except MemoryError as error:
        why = f"there is not enough memory ({error})"
    except OSError as error:  # a disk, or a network
        why = f"it could not be read: {error}"
    except RuntimeError as error:  # torch says so when there is none, or a solver fails
        why = f"torch gave up: {str(error).splitlines()[0]}"
    site = job.site if isinstance(job, MatrixPair) else job.matrix.site
    return Measured(job.index, (), None, (Skipped(site, "all of it", why),), None, failed=True)


PANEL = 1024  # rows of a merged weight that are made at once, in double precision


def _matrix(task: Task) -> Tensor:
    cut = task.cut
    if not isinstance(cut, Product):
        return cut.read()
    assert cut.base is not None, "a change of low rank alone is never written out"
    # rounded once, at the end: what steps in single precision lose looks like more directions
    left, right, base = cut.left.read(), cut.right.read().double(), cut.base.read()
    found = torch.empty(base.shape)
    for rows, change, old in zip(*(t.split(PANEL) for t in (found, left, base)), strict=True):
        rows.copy_(old.double() + cut.scaling * (change.double() @ right))
    return found


# ------------------------------------------------------------------------------
# `scan`: every matrix of a checkpoint, one at a time.


Told = Callable[[Matrix, Measured], None]


@door
def scan(
    source: Origin,
    *,
    against: Origin | None = None,
    only: Sequence[str] = (),
    skip: Sequence[str] = (),
    quantities: Iterable[str] | None = None,
    effort: Asked = "auto",
    heads: bool = False,
    grid: int = 0,
    rules: Sequence[NameRule] = (),
    run: str | os.PathLike[str] | None = None,
    spectra: bool = True,
    memory: int | None = None,
    workers: int = 1,
    mapper: Mapper = map,
    seed: int = 0,
    told: Told | None = None,
    progress: Progress | None = None,
) -> Scan:
    """Measure every matrix of a checkpoint, however large, without its model.

    Args:
        source: A file, a folder, a URL, a module, or a mapping of tensors, of modules or of what
            else a training loop saves; see `checkpoints.open_checkpoint`.
        against: Another version; then it is measured how far each matrix moved.
        only: Patterns of names, as of a shell; all if empty.
        skip: Patterns of names to leave out.
        quantities: Names of what is read; everything when omitted.
        effort: `"full"` for all singular values of every matrix, `"leading"` for the largest only;
            `"auto"` computes all up to a smaller side of 4096.
        heads: Whether matrices of attention are split into heads.
        grid: Points along each side of a periodic grid on which every convolution is measured as
            an operator too, with stride 1; 0 for its kernel alone, as the grid is not stored.
        rules: What tensors of some names are, before the table that comes with sigmascope.
        run: A run file, in which each result is as soon as it is known; a scan that was cut off
            goes on from there.
        spectra: Whether singular values are kept.
        memory: Bytes that a process may take; what needs more is left out by name.
        workers: Processes that `mapper` has, for the time that is expected.
        mapper: What shares the work out: `map`, `integrations.processes.WorkerProcesses`, or
            `integrations.ray.RayMap`. Results are the same with all of them.
        seed: Of everything that is drawn.
        told: Called with each result as it comes, with those of the run file first.
        progress: Called with words, work done and work in all.

    Returns:
        Numbers with their intervals, in the order of the checkpoint.

    Raises:
        Refusal: If the source cannot be opened, or the run file is of another scan.

    Example:
        >>> import torch
        >>> found = scan({"a.weight": torch.eye(16), "b.weight": torch.randn(16, 32)})
        >>> [m.site for m in found.matrices], found.series("stable rank")[0].estimate.value
        (['a.weight', 'b.weight'], 16.0)
    """
    settings = _settings(only, skip, quantities, effort, heads, grid, rules, seed, spectra, memory)
    require_meant(quantities, changes=against is not None)
    todo = _work(source, against, settings, workers)
    journal = Journal(todo.plan, run)
    began = time.monotonic()
    try:
        # all that is missing; copies last, for sketches of all matrices are needed for them
        jobs: list[Job] = [*todo.tasks, *todo.pairs]
        for i, matrix in enumerate(todo.plan.matrices):
            if told is not None and i in journal.found:
                told(matrix, journal.found[i])
        costs = {job.index: work(job) for job in jobs}
        missing, total = journal.missing(jobs), sum(costs[job.index] for job in jobs)
        done = total - sum(costs[job.index] for job in missing)
        count = len(jobs) - len(missing)
        for one in results(missing, mapper):
            journal.add(one)
            if told is not None and one.index < len(todo.plan.matrices):
                told(todo.plan.matrices[one.index], one)
            done, count = done + costs[one.index], count + 1
            if progress is not None:
                words = f"{count} of {len(jobs)} matrices"
                progress(words, round(done / 1e6), round(total / 1e6))
        sketches = {i: m.sketch for i, m in journal.found.items() if m.sketch is not None}
        again = candidates(todo.tasks, sketches, start=len(jobs))
        for one in results(journal.missing(again), mapper):
            journal.add(one)
    finally:
        journal.close()
    ordered = [journal.found[i] for i in sorted(journal.found)]
    about = {
        **todo.plan.about,
        "seconds": f"{time.monotonic() - began:.2f}",
        "workers": str(todo.plan.workers),
    }
    return Scan(
        todo.plan,
        tuple(r for m in ordered for r in m.readings),
        tuple(m.spectrum for m in ordered if m.spectrum is not None),
        tuple(s for m in ordered for s in m.skipped),
        MappingProxyType(about),
    )


def plan(
    source: Origin,
    *,
    against: Origin | None = None,
    only: Sequence[str] = (),
    skip: Sequence[str] = (),
    quantities: Iterable[str] | None = None,
    effort: Asked = "auto",
    heads: bool = False,
    grid: int = 0,
    rules: Sequence[NameRule] = (),
    memory: int | None = None,
    workers: int = 1,
) -> ScanPlan:
    """What `scan` would do, from headers alone.

    Args:
        source: As for `scan`, like everything below.
        against: Another version.
        only: Patterns of names.
        skip: Patterns of names to leave out.
        quantities: Names of what is read.
        effort: How many singular values are computed.
        heads: Whether matrices of attention are split.
        grid: On which convolutions are operators too.
        rules: A user's own.
        memory: Bytes that a process may take.
        workers: Processes.

    Raises:
        Refusal: If the source cannot be opened.

    Example:
        >>> import torch
        >>> found = plan({"a.weight": torch.eye(16), "a.bias": torch.zeros(16)})
        >>> found.matrices[0].kind, found.skipped[0].why
        ('linear', 'a vector: its one singular value is its norm')
    """
    settings = _settings(only, skip, quantities, effort, heads, grid, rules, 0, True, memory)
    require_meant(quantities, changes=against is not None)
    return _work(source, against, settings, workers).plan


def _settings(
    only: Sequence[str],
    skip: Sequence[str],
    quantities: Iterable[str] | None,
    effort: Asked,
    heads: bool,
    grid: int,
    rules: Sequence[NameRule],
    seed: int,
    spectra: bool,
    memory: int | None,
) -> Settings:
    if not 0 <= grid <= 4096:
        raise guard.Refusal(f"`grid` must be 0 to 4096 points along a side, got {grid}.")
    if effort not in ("auto", "full", "leading"):
        raise guard.Refusal(f"`effort` must be auto, full or leading, got {effort!r}.")
    return Settings(
        tuple(only), tuple(skip), quantities_named(quantities), effort, heads, grid, tuple(rules),
        seed, spectra, 2**62 if memory is None else memory,
    )  # fmt: skip


def _work(source: Origin, against: Origin | None, settings: Settings, workers: int) -> PlannedWork:
    if against is not None:
        return versions(source, against, settings, workers=workers)
    return worked_out(source, settings, workers=workers)
