"""Running a model without leaving a trace in it: freezing, copies, hooks."""

from sigmascope.probes.execution.copying import duplicate, reached
from sigmascope.probes.execution.dropping import Dropped, dropped, watching_dropout
from sigmascope.probes.execution.freeze import ALONE, apart, still, uses_batch_statistics
from sigmascope.probes.execution.hooks import Call, is_repeated, module_name, recording
from sigmascope.probes.execution.layers import is_matrix, layers, normalisers
from sigmascope.probes.execution.refusals import called, in_words, plain, require_real
from sigmascope.probes.execution.restoring import as_found

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
    "is_matrix",
    "is_repeated",
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
