"""Work shared among processes of this machine, of one thread each."""

import os
import signal
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass
from multiprocessing import get_context
from multiprocessing.connection import Connection
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
        context = get_context("spawn")
        ours, theirs = context.Pipe(duplex=False)[::-1]
        pool = ProcessPoolExecutor(
            self.workers, context, initializer=_alone, initargs=(os.getpid(), theirs)
        )
        try:
            for future in as_completed([pool.submit(run, item) for item in many]):
                yield future.result()
        except BrokenProcessPool as error:
            raise Refusal(
                "A worker process was killed, as a system does that has no memory left: take fewer "
                "(`--workers`), or less memory for each. With a run file, what was done is kept."
            ) from error
        except (
            BaseException
        ):  # interrupted, or nobody listens any more: what runs is not waited for
            ours.close()
            raise
        finally:
            pool.shutdown(wait=True, cancel_futures=True)
            ours.close()
            theirs.close()


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
