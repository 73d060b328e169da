"""How a model's weights may be rescaled without changing what it computes."""

from sigmascope.probes.symmetry.families import Fixed, Part, Symmetry
from sigmascope.probes.symmetry.gradients import Pull, reduced_gradients, trial_gradients
from sigmascope.probes.symmetry.rescalings import StillSum, Symmetries, symmetries
from sigmascope.probes.symmetry.step_sums import StepSums
from sigmascope.probes.symmetry.unit_mixing import Passed

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
