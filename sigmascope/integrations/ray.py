"""A `map` on Ray, for sweeps over many machines."""

import os
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any, final

try:
    import ray
    from ray import exceptions
except ImportError as error:
    raise ImportError(
        "Sharing work on Ray needs ray. `pip install 'sigmascope[ray]'`, or leave `mapper` "
        "(`--ray`) out: processes of this machine do the same."
    ) from error

from sigmascope.core.guard import Refusal

# Ray runs a task again on another worker before it says one of these
LOST = (
    exceptions.WorkerCrashedError,
    exceptions.OutOfMemoryError,
    exceptions.NodeDiedError,
    exceptions.LocalRayletDiedError,
)


@final
@dataclass(frozen=True, slots=True)
class RayMap:
    """A `mapper` for `theory.bottleneck.depth_sweep`: every item is a task of Ray, on one core.

    Attributes:
        address: Of a cluster; without, the one that runs already, or one on this machine.
    """

    address: str | None = None

    def __call__(self, run: Any, many: Iterable[Any]) -> Iterator[Any]:
        """Results as they come; what runs is sent to every machine once."""
        if not ray.is_initialized():
            os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # nothing is sent unasked
            ray.init(self.address, log_to_driver=False, include_dashboard=False)
        shared = ray.put(run)
        waiting = [_one.remote(shared, item) for item in many]
        while waiting:
            (done,), waiting = ray.wait(waiting)
            try:
                yield ray.get(done)
            except LOST as error:
                raise Refusal(
                    "A worker of Ray ended before its task, again and again "
                    f"({type(error).__name__}): it was killed, or the memory of its machine did "
                    "not suffice. Take fewer at a time, or machines with more memory; what is in "
                    "the file already is not computed again."
                ) from error


def _alone(run: Callable[[Any], Any], item: Any) -> Any:
    import torch

    torch.set_num_threads(1)
    return run(item)


# Ray pickles what it is given with all that it refers to, but names what a module holds
_one: Any = ray.remote(num_cpus=1)(lambda *one: _alone(*one))
