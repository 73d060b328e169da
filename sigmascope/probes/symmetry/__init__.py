"""How a model's weights may be rescaled without changing what it computes."""

from sigmascope.probes.symmetry.families import (
    Fixed,
    Part,
    StillSum,
    Symmetries,
    Symmetry,
    symmetries,
)
from sigmascope.probes.symmetry.gradients import Pull, StepSums, reduced_gradients, trial_gradients
from sigmascope.probes.symmetry.scales import Passed

__all__ = [
    "Fixed",
    "Part",
    "Passed",
    "Pull",
    "StepSums",
    "StillSum",
    "Symmetries",
    "Symmetry",
    "reduced_gradients",
    "symmetries",
    "trial_gradients",
]
