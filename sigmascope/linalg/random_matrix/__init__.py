"""Laws of large random matrices."""

from sigmascope.linalg.random_matrix.laws import (
    EdelmanCondition,
    EdgeLaw,
    MarchenkoPastur,
    shifted_limits,
    singular_edge,
    symmetric_edge,
)
from sigmascope.linalg.random_matrix.tracy_widom import TracyWidom

__all__ = [
    "EdelmanCondition",
    "EdgeLaw",
    "MarchenkoPastur",
    "TracyWidom",
    "shifted_limits",
    "singular_edge",
    "symmetric_edge",
]
