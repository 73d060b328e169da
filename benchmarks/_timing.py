"""Timing shared by the benchmarks: side by side, in one process, best of several."""

import platform
import time
from collections.abc import Callable, Mapping

import numpy
import scipy
import torch


def best_of(
    contenders: Mapping[str, Callable[[], object]], *, repeats: int = 5
) -> dict[str, float]:
    """Least wall time of each contender in seconds, after a warm-up, in turns.

    Taking turns spreads a busy neighbour over all of them; the least of several drops it.
    """
    least = dict.fromkeys(contenders, float("inf"))
    for turn in range(repeats + 1):
        for name, run in contenders.items():
            _finish()
            start = time.perf_counter()
            run()
            _finish()
            if turn > 0:  # the first turn loads code and fills caches
                least[name] = min(least[name], time.perf_counter() - start)
    return least


def environment() -> dict[str, str | int]:
    """Versions, processor and thread count, to be kept with every row."""
    return {
        "torch": torch.__version__,
        "numpy": numpy.__version__,
        "scipy": scipy.__version__,
        "machine": platform.machine(),
        "threads": torch.get_num_threads(),
    }


def _finish() -> None:
    if torch.cuda.is_available():
        torch.cuda.synchronize()
