"""By whom a scan or a sweep is carried out, and within which means."""

import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter
from cyclopts.validators import Number

from sigmascope import gate
from sigmascope.cli.ends import refusing

if TYPE_CHECKING:
    from sigmascope.integrations.processes import Processes
    from sigmascope.records.scans import ScanPlan

MANY = Annotated[int | None, Parameter(validator=Number(gte=1, lte=1024))]
Mapper = Callable[[Callable[[Any], Any], Iterable[Any]], Iterable[Any]]
SHORT = 20.0  # seconds of work, for which processes are not worth their start


@Parameter(name="*")
@dataclass(frozen=True)
class How:
    """By whom, and within which means.

    Attributes:
        workers: Processes of this machine; as many as it has cores for where there is work enough.
        ray: Share the work on Ray instead: the address of a cluster, or `local`.
        memory: How much all processes may take together, e.g. `8GB`; half of the machine's.
        spectra: Keep singular values in the run file: 24 bytes each.
    """

    workers: MANY = None
    ray: str | None = None
    memory: str | None = None
    spectra: Annotated[bool, Parameter(negative="--no-spectra")] = True


def workers_for(planned: "ScanPlan", how: How) -> int:
    """As many processes as there are cores, work and memory for.

    Raises:
        Refusal: If more are asked for than fit.
    """
    fitting = max(1, gate.allowed() // max(planned.memory, 1))
    if how.workers is not None:
        if how.workers > fitting and planned.matrices:
            raise gate.Refusal(
                f"{how.workers} workers of {gate.size_words(planned.memory)} each do not fit the "
                f"{gate.size_words(gate.allowed())} allowed: take {fitting}, or more `--memory`."
            )
        return how.workers
    return min(fitting, _cores(), max(1, int(planned.seconds // SHORT)))


def _cores() -> int:
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:  # only Linux says which are ours
        return os.cpu_count() or 1


@contextmanager
def hired(how: How, *, wanted: bool) -> Iterator["Processes | None"]:
    """As many processes as were asked for, started before anything else is loaded.

    They take as long to load torch as this one does, and would otherwise begin when it has. More
    than there are cores wait until it is known whether they fit the memory.

    Args:
        how: By whom.
        wanted: Whether there will be work at all.
    """
    count = how.workers or 1
    if not wanted or how.ray is not None or not 1 < count <= _cores():
        yield None
        return
    from sigmascope.integrations.processes import Processes

    with Processes(count).hired("sigmascope.scanning") as crew:
        yield crew


def mapper_of(workers: int, how: How, crew: "Processes | None" = None) -> Mapper:
    """What shares the work out; `crew` if it is hired already."""
    if crew is not None:
        return crew
    if how.ray is None:
        from sigmascope.integrations.processes import Processes

        return map if workers == 1 else Processes(workers)
    with refusing(ImportError):
        from sigmascope.integrations.ray import RayMap
    return RayMap(None if how.ray == "local" else how.ray)
