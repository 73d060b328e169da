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

__all__ = ["Copied", "copied", "counted", "ends", "later_inputs", "offset", "ordered"]
