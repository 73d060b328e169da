"""Work shared among processes of this machine, of one thread each."""

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass
from multiprocessing import get_context
from typing import Any


@dataclass(frozen=True)
class Processes:
    """A `map` in several processes.

    Attributes:
        workers: How many.
    """

    workers: int

    def __call__(self, run: Callable[[Any], Any], many: Iterable[Any]) -> Iterator[Any]:
        """Results as they come; `run` and what it is called with must be picklable."""
        # a forked process would hang in torch's thread pool
        with ProcessPoolExecutor(self.workers, get_context("spawn"), initializer=_alone) as pool:
            for future in as_completed([pool.submit(run, item) for item in many]):
                yield future.result()


def _alone() -> None:
    import torch

    torch.set_num_threads(1)
