"""Spectra of many matrices at once."""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from sigmascope.linalg.dense import gram_work
from sigmascope.linalg.refusals import require_matrix
from sigmascope.linalg.spectra.routes import Route, dense_spectra, settled, spectrum
from sigmascope.linalg.spectra.work import spent
from sigmascope.records import Spectrum

TASK = 2**20  # entries; small matrices of one shape are solved together up to this many


def spectra(
    matrices: Sequence[Float[Tensor, "_ _"]] | Float[Tensor, "b m n"], *, route: Route = "auto"
) -> tuple[Spectrum, ...]:
    """Singular values of many matrices: what `spectrum` says of each, in less time.

    Matrices of one shape are solved together, and as many at a time as torch may use threads, each
    on one thread: an eigensolver keeps one core busy and rarely two. The caller's thread count is
    left alone.

    Args:
        matrices: Matrices of any shapes, or a stack of them.
        route: As for `spectrum`; `"free"` here means its defaults.

    Returns:
        One spectrum per matrix, in the order given.

    Raises:
        TypeError: If one is not real floating point.
        ValueError: If one is empty, not a matrix, or not finite; the message names its place.

    Source:
        As `spectrum`.
    """
    for i, A in enumerate(matrices):
        require_matrix(A, name=f"matrices[{i}]")
    tasks = _tasks([A.detach() for A in matrices], route)
    for task in tasks:
        m, n = task.matrices[0].shape
        if settled(task.matrices[0], route) != "free":
            spent((m, n), exact=route == "exact", count=len(task.matrices))
    found: list[Spectrum | None] = [None] * len(matrices)
    for task, results in zip(tasks, _solve(tasks), strict=True):
        for place, result in zip(task.places, results, strict=True):
            found[place] = result
    return tuple(s for s in found if s is not None)


@dataclass(frozen=True, slots=True)
class _Task:
    """Matrices of one shape, solved in one go."""

    places: tuple[int, ...]
    matrices: tuple[Tensor, ...]
    route: Route

    @property
    def work(self) -> int:
        """Multiplications, counting those of the eigensolver four times: they run slower."""
        m, n = self.matrices[0].shape
        return len(self.matrices) * (gram_work(m, n) + 4 * min(m, n) ** 3)

    def run(self) -> list[Spectrum]:
        route = settled(self.matrices[0], self.route)
        if route == "free":
            return [spectrum(A, route=route) for A in self.matrices]
        stack = self.matrices[0][None] if len(self.matrices) == 1 else torch.stack(self.matrices)
        return dense_spectra(stack, route)


def _tasks(matrices: list[Tensor], route: Route) -> list[_Task]:
    """Matrices of one kind, in groups of at most `TASK` entries; the dearest group first."""
    kinds: dict[tuple, list[int]] = {}
    for i, A in enumerate(matrices):
        kinds.setdefault((A.shape, A.dtype, A.device), []).append(i)
    tasks = []
    for (shape, *_), places in kinds.items():
        size = max(1, TASK // shape.numel())
        for start in range(0, len(places), size):
            some = tuple(places[start : start + size])
            tasks.append(_Task(some, tuple(matrices[i] for i in some), route))
    return sorted(tasks, key=lambda task: -task.work)


def _solve(tasks: list[_Task]) -> list[list[Spectrum]]:
    """Run the tasks, one per thread, after those that outweigh a fair share, on all threads."""
    workers = torch.get_num_threads()
    share = sum(task.work for task in tasks) / workers
    heavy = sum(task.work > share for task in tasks)
    done = [task.run() for task in tasks[:heavy]]
    if workers == 1 or len(tasks) - heavy < 2:
        return done + [task.run() for task in tasks[heavy:]]
    # torch counts threads per thread; a worker's 1 is seen by no thread but later ones, and only
    # until the caller's own number is stated again
    try:
        with ThreadPoolExecutor(workers, initializer=torch.set_num_threads, initargs=(1,)) as pool:
            return done + list(pool.map(_Task.run, tasks[heavy:]))
    finally:
        torch.set_num_threads(workers)
