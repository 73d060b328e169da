"""What a sequence model compares with what, and what its outputs depend on."""

from sigmascope.probes.sequences.comparisons import (
    Copied,
    copied,
    counted,
    ends,
    offset,
    ordered,
)
from sigmascope.probes.sequences.positions import later_inputs
from sigmascope.probes.sequences.recurrence import (
    FEWEST,
    StepGradients,
    slope,
    step_gradients,
)

__all__ = [
    "FEWEST",
    "Copied",
    "StepGradients",
    "copied",
    "counted",
    "ends",
    "later_inputs",
    "offset",
    "ordered",
    "slope",
    "step_gradients",
]
