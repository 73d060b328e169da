"""Models in, matrices and operators out."""

from sigmascope.models import (
    curvature,
    gradients,
    jacobian,
    layers,
    networks,
    samples,
    sequences,
    state,
    structure,
    trace,
)
from sigmascope.models.subject import OUTPUT, Subject
from sigmascope.models.weights import (
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
    "gradients",
    "jacobian",
    "layers",
    "networks",
    "samples",
    "sequences",
    "state",
    "structure",
    "trace",
    "weights",
]
