"""Running a model without leaving a trace in it: freezing, copies, hooks."""

from sigmascope.probes.execution.gradients import Dropped, dropped, watching_dropout
from sigmascope.probes.execution.layers import (
    Call,
    is_matrix,
    is_repeated,
    layers,
    module_name,
    normalisers,
    recording,
)
from sigmascope.probes.execution.refusals import called, in_words, plain, require_real
from sigmascope.probes.execution.state import (
    ALONE,
    apart,
    as_found,
    duplicate,
    is_compiled,
    is_untouched,
    reached,
    still,
    uses_batch_statistics,
)

__all__ = [
    "ALONE",
    "Call",
    "Dropped",
    "apart",
    "as_found",
    "called",
    "dropped",
    "duplicate",
    "in_words",
    "is_compiled",
    "is_matrix",
    "is_repeated",
    "is_untouched",
    "layers",
    "module_name",
    "normalisers",
    "plain",
    "reached",
    "recording",
    "require_real",
    "still",
    "uses_batch_statistics",
    "watching_dropout",
]
