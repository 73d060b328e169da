"""How a model is put together: residual branches, saturating units, what is adjacent."""

from sigmascope.probes.structure.linear_stacks import Point, Stack
from sigmascope.probes.structure.operations import Branch, Squash, branches

__all__ = [
    "Branch",
    "Point",
    "Squash",
    "Stack",
    "branches",
]
