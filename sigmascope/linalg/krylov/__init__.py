"""Matrices known by their products: extreme eigenvalues, densities, traces."""

from sigmascope.linalg.krylov.eigenvalues import Ends, Krylov, extreme_eigenvalues, krylov_space
from sigmascope.linalg.krylov.operators import WORKING, Operator
from sigmascope.linalg.krylov.singular_values import Leading, leading
from sigmascope.linalg.krylov.traces import (
    Density,
    moments_within,
    spectral_density,
    symmetric_moments,
    trace,
    trace_of_forms,
)

__all__ = [
    "WORKING",
    "Density",
    "Ends",
    "Krylov",
    "Leading",
    "Operator",
    "extreme_eigenvalues",
    "krylov_space",
    "leading",
    "moments_within",
    "spectral_density",
    "symmetric_moments",
    "trace",
    "trace_of_forms",
]
