"""`scan`: every matrix of a checkpoint, one at a time."""

import os
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from types import MappingProxyType

from sigmascope import gate
from sigmascope.records import SiteSpectrum
from sigmascope.records.scans import Matrix, Scan, ScanPlan
from sigmascope.scanning.against import require_meant, versions
from sigmascope.scanning.copies import candidates
from sigmascope.scanning.journal import Journal
from sigmascope.scanning.measuring import Measured
from sigmascope.scanning.planning import Work, worked_out
from sigmascope.scanning.rules import Rule
from sigmascope.scanning.running import Job, Mapper, results, work
from sigmascope.scanning.settings import Asked, Origin, Settings, quantities_named

Told = Callable[[Matrix, Measured], None]
Progress = Callable[[str, int, int], None]


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
    rules: Sequence[Rule] = (),
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
        source: A file, a folder, a URL, a module, or a mapping of tensors.
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
        mapper: What shares the work out: `map`, `integrations.processes.Processes`, or
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
        _carry_out(todo, journal, mapper, told, progress)
    finally:
        journal.close()
    return _scan(todo, journal, time.monotonic() - began)


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
    rules: Sequence[Rule] = (),
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
    rules: Sequence[Rule],
    seed: int,
    spectra: bool,
    memory: int | None,
) -> Settings:
    if not 0 <= grid <= 4096:
        raise gate.Refusal(f"`grid` must be 0 to 4096 points along a side, got {grid}.")
    if effort not in ("auto", "full", "leading"):
        raise gate.Refusal(f"`effort` must be auto, full or leading, got {effort!r}.")
    return Settings(
        tuple(only), tuple(skip), quantities_named(quantities), effort, heads, grid, tuple(rules),
        seed, spectra, 2**62 if memory is None else memory,
    )  # fmt: skip


def _work(source: Origin, against: Origin | None, settings: Settings, workers: int) -> Work:
    if against is not None:
        return versions(source, against, settings, workers=workers)
    return worked_out(source, settings, workers=workers)


def _carry_out(
    todo: Work, journal: Journal, mapper: Mapper, told: Told | None, progress: Progress | None
) -> None:
    """All that is missing; copies last, for sketches of all matrices are needed for them."""
    jobs: list[Job] = [*todo.tasks, *todo.pairs]
    for i, matrix in enumerate(todo.plan.matrices):
        if told is not None and i in journal.found:
            told(matrix, journal.found[i])
    total = sum(map(work, jobs))
    for one in _watched(journal.missing(jobs), jobs, total, mapper, progress):
        journal.add(one)
        if told is not None and one.index < len(todo.plan.matrices):
            told(todo.plan.matrices[one.index], one)
    sketches = {i: m.sketch for i, m in journal.found.items() if m.sketch is not None}
    again = candidates(todo.tasks, sketches, start=len(jobs))
    for one in results(journal.missing(again), mapper):
        journal.add(one)


def _watched(
    missing: list[Job], jobs: list[Job], total: float, mapper: Mapper, progress: Progress | None
) -> Iterator[Measured]:
    costs = {job.index: work(job) for job in jobs}
    done = total - sum(costs[job.index] for job in missing)
    count = len(jobs) - len(missing)
    for one in results(missing, mapper):
        yield one
        done, count = done + costs[one.index], count + 1
        if progress is not None:
            progress(f"{count} of {len(jobs)} matrices", round(done / 1e6), round(total / 1e6))


def _scan(todo: Work, journal: Journal, seconds: float) -> Scan:
    ordered = [journal.found[i] for i in sorted(journal.found)]
    spectra: list[SiteSpectrum] = [m.spectrum for m in ordered if m.spectrum is not None]
    about = {**todo.plan.about, "seconds": f"{seconds:.2f}", "workers": str(todo.plan.workers)}
    return Scan(
        todo.plan,
        tuple(r for m in ordered for r in m.readings),
        tuple(spectra),
        tuple(s for m in ordered for s in m.skipped),
        MappingProxyType(about),
    )
