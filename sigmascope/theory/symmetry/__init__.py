"""How a model's weights may be rescaled without changing what it computes."""

from sigmascope.theory.symmetry.families import (
    Fixed,
    Part,
    StepSums,
    StillSum,
    Symmetries,
    Symmetry,
    symmetries,
    symmetries_of,
)
from sigmascope.theory.symmetry.scales import Passed

__all__ = [
    "Fixed",
    "Part",
    "Passed",
    "StepSums",
    "StillSum",
    "Symmetries",
    "Symmetry",
    "symmetries",
    "symmetries_of",
]
