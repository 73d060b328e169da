"""How a model is put together: residual branches, saturating units, what is adjacent."""

from sigmascope.probes.execution.trace import Tail, tail
from sigmascope.probes.structure.linear import LinearPair, Point, Stack, linear_pairs
from sigmascope.probes.structure.operations import Branch, Squash, branches

__all__ = [
    "Branch",
    "LinearPair",
    "Point",
    "Squash",
    "Stack",
    "Tail",
    "branches",
    "linear_pairs",
    "tail",
]
