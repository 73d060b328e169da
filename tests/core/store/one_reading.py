"""A run file of one reading, and what is in it."""

from sigmascope.core.records import Estimate, Reading
from sigmascope.core.store import Run

READING = Reading("fc", "stable rank", Estimate.exactly(1.5), "weights", "matrix")


def values(path):
    with Run(path, write=False) as run:
        return [(r.step, r.estimate.value) for r in run.readings()]
