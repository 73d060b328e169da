"""How a model is put together: residual branches, saturating units, what is adjacent."""

from sigmascope.probes.structure.linear_stacks import Point, Stack
from sigmascope.probes.structure.output_operation import closing_operation
from sigmascope.probes.structure.residual_branches import Branch, branches
from sigmascope.probes.structure.saturation import Squash, squashes

__all__ = [
    "Branch",
    "Point",
    "Squash",
    "Stack",
    "branches",
    "closing_operation",
    "squashes",
]
