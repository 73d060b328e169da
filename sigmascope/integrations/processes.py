"""Work shared among processes of this machine, of one thread each."""

import os
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from multiprocessing import get_context
from threading import Thread
from typing import Any

from sigmascope.gate import Refusal


@dataclass(frozen=True)
class Processes:
    """A `map` in several processes.

    Attributes:
        workers: How many.
    """

    workers: int

    def __call__(self, run: Callable[[Any], Any], many: Iterable[Any]) -> Iterator[Any]:
        """Results as they come; `run` and what it is called with must be picklable.

        Raises:
            Refusal: If a process is killed, as by a system that is out of memory.
        """
        # a forked process would hang in torch's thread pool
        pool = ProcessPoolExecutor(
            self.workers, get_context("spawn"), initializer=_alone, initargs=(os.getpid(),)
        )
        try:
            for future in as_completed([pool.submit(run, item) for item in many]):
                yield future.result()
        except BrokenProcessPool as error:
            raise Refusal(
                "A worker process was killed, as a system does that has no memory left: take fewer "
                "(`--workers`), or less memory for each. With a run file, what was done is kept."
            ) from error
        finally:  # also where the caller has stopped listening
            pool.shutdown(wait=True, cancel_futures=True)


def _alone(parent: int) -> None:
    """One thread, no longer than the process that asked: what is killed says nobody goodbye."""
    Thread(target=_watch, args=(parent,), daemon=True).start()
    import torch

    torch.set_num_threads(1)


def _watch(parent: int) -> None:
    while os.getppid() == parent:
        time.sleep(1.0)
    os._exit(1)
