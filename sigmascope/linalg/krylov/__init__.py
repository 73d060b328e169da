"""Matrices known by their products: extreme eigenvalues, densities, traces."""

from sigmascope.linalg.krylov.block import Leading, leading
from sigmascope.linalg.krylov.deflation import moments_within, symmetric_moments
from sigmascope.linalg.krylov.eigenvalues import Ends, extreme_eigenvalues
from sigmascope.linalg.krylov.lanczos import Krylov, krylov_space
from sigmascope.linalg.krylov.maps import WORKING, tamed, times
from sigmascope.linalg.krylov.operator import Operator
from sigmascope.linalg.krylov.quadratic_forms import trace_of_forms
from sigmascope.linalg.krylov.quadrature import Density, spectral_density
from sigmascope.linalg.krylov.traces import trace

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
    "tamed",
    "times",
    "trace",
    "trace_of_forms",
]
