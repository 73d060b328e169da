"""Work shared among processes of this machine, of one thread each."""

import os
import signal
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from importlib import import_module
from multiprocessing import get_context
from multiprocessing.connection import Connection
from threading import Thread
from typing import Any

from sigmascope.core.guard import Refusal


@dataclass(frozen=True)
class WorkerProcesses:
    """A `map` in several processes, which are started for it, or before it if they are hired.

    Attributes:
        workers: How many.
    """

    workers: int
    _crew: "_Crew | None" = field(default=None, repr=False, compare=False)

    @contextmanager
    def hired(self, module: str) -> Iterator["WorkerProcesses"]:
        """The same with its processes started now: they load a module while others plan."""
        crew = _Crew(self.workers)
        try:
            crew.call(module)
            yield replace(self, _crew=crew)
        finally:
            crew.dismiss()

    def __call__(self, run: Callable[[Any], Any], many: Iterable[Any]) -> Iterator[Any]:
        """Results as they come; `run` and what it is called with must be picklable.

        Raises:
            Refusal: If a process is killed, as by a system that is out of memory.
        """
        crew = self._crew or _Crew(self.workers)
        try:
            yield from crew.work(run, many)
        except BrokenProcessPool as error:
            raise Refusal(
                "A worker process was killed, as a system does that has no memory left: take fewer "
                "(`--workers`), or less memory for each. With a run file, what was done is kept."
            ) from error
        except BaseException:
            crew.leave()  # interrupted, or nobody listens any more: what runs is not waited for
            raise
        finally:
            if crew is not self._crew:
                crew.dismiss()


class _Crew:
    """Processes that work until they are dismissed; or left alone, when they end at once."""

    def __init__(self, workers: int) -> None:
        # a forked process would hang in torch's thread pool
        context = get_context("spawn")
        self._workers = workers
        self._ours, self._theirs = context.Pipe(duplex=False)[::-1]
        self._pool = ProcessPoolExecutor(
            workers, context, initializer=_alone, initargs=(os.getpid(), self._theirs)
        )

    def call(self, module: str) -> None:
        for _ in range(self._workers):  # a process is started for each
            self._pool.submit(_load, module)

    def work(self, run: Callable[[Any], Any], many: Iterable[Any]) -> Iterator[Any]:
        for future in as_completed([self._pool.submit(run, item) for item in many]):
            yield future.result()

    def leave(self) -> None:
        self._ours.close()

    def dismiss(self) -> None:
        self._pool.shutdown(wait=True, cancel_futures=True)
        self._ours.close()
        self._theirs.close()


def _load(module: str) -> None:
    import_module(module)  # what comes of it cannot travel back


def _alone(parent: int, theirs: Connection) -> None:
    """One thread, no longer than the process that asked: what is killed says nobody goodbye."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent hears it and ends all
    Thread(target=_watch, args=(parent, theirs), daemon=True).start()
    import torch

    torch.set_num_threads(1)


def _watch(parent: int, theirs: Connection) -> None:
    """End with the pipe, which the parent closes, or with the parent, which may hold it no more."""
    while os.getppid() == parent and not theirs.poll(1.0):
        continue
    os._exit(1)
