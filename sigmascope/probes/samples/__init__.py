"""The batch, its samples and its targets, and matrices whose rows they are."""

from sigmascope.probes.samples.batches import (
    Batch,
    as_tensor,
    beside,
    call as run,
    chosen,
    mapped,
    prepared,
    sample_count,
    tensors,
)
from sigmascope.probes.samples.matrices import Rows, Spectra
from sigmascope.probes.samples.targets import (
    IGNORED,
    SQUARED,
    Loss,
    class_dim,
    loss_name,
    require_finite_targets,
    require_task,
)

__all__ = [
    "IGNORED",
    "SQUARED",
    "Batch",
    "Loss",
    "Rows",
    "Spectra",
    "as_tensor",
    "beside",
    "chosen",
    "class_dim",
    "loss_name",
    "mapped",
    "prepared",
    "require_finite_targets",
    "require_task",
    "run",
    "sample_count",
    "tensors",
]
