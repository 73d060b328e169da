"""Models in, matrices and operators out."""

from sigmascope.probes import curvature, execution, jacobian, samples, sequences, structure
from sigmascope.probes.subject import OUTPUT, Subject
from sigmascope.probes.weights import (
    Weight,
    as_matrix,
    convolution_operator,
    weights,
)

__all__ = [
    "OUTPUT",
    "Subject",
    "Weight",
    "as_matrix",
    "convolution_operator",
    "curvature",
    "execution",
    "jacobian",
    "samples",
    "sequences",
    "structure",
    "weights",
]
