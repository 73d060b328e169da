"""The batch, its samples and its targets, and matrices whose rows they are."""

from sigmascope.probes.samples.batches import (
    Batch,
    as_tensor,
    call as run,
    chosen,
    prepared,
    sample_count,
    tensors,
)
from sigmascope.probes.samples.matrices import Rows, Spectra
from sigmascope.probes.samples.targets import Loss, require_finite_targets, require_task

__all__ = [
    "Batch",
    "Loss",
    "Rows",
    "Spectra",
    "as_tensor",
    "chosen",
    "prepared",
    "require_finite_targets",
    "require_task",
    "run",
    "sample_count",
    "tensors",
]
