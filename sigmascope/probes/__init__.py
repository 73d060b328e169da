"""Models in, matrices and operators out."""

from sigmascope.probes import (
    curvature,
    execution,
    jacobian,
    neuron_graph,
    piecewise_affine,
    samples,
    sequences,
    structure,
    symmetry,
)
from sigmascope.probes.convolutions import convolution_operator
from sigmascope.probes.observed import OUTPUT
from sigmascope.probes.subject import Subject
from sigmascope.probes.weights import Weight, as_matrix, weight_spectra, weights

__all__ = [
    "OUTPUT",
    "Subject",
    "Weight",
    "as_matrix",
    "convolution_operator",
    "curvature",
    "execution",
    "jacobian",
    "neuron_graph",
    "piecewise_affine",
    "samples",
    "sequences",
    "structure",
    "symmetry",
    "weight_spectra",
    "weights",
]
