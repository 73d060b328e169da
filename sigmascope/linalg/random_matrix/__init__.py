"""Laws of large random matrices."""

from sigmascope.linalg.random_matrix.laws import (
    EdelmanCondition,
    EdgeLaw,
    MarchenkoPastur,
    shifted_limits,
    singular_edge,
    symmetric_edge,
)
from sigmascope.linalg.random_matrix.noise import FALSE_ALARMS, Noise, has_spikes, noise
from sigmascope.linalg.random_matrix.power_laws import PowerLaw, power_law
from sigmascope.linalg.random_matrix.signs import RandomSigns, wishart_edge
from sigmascope.linalg.random_matrix.tracy_widom import TracyWidom

__all__ = [
    "FALSE_ALARMS",
    "EdelmanCondition",
    "EdgeLaw",
    "MarchenkoPastur",
    "Noise",
    "PowerLaw",
    "RandomSigns",
    "TracyWidom",
    "has_spikes",
    "noise",
    "power_law",
    "shifted_limits",
    "singular_edge",
    "symmetric_edge",
    "wishart_edge",
]
