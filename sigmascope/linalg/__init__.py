"""Matrices in, numbers out."""

from sigmascope.linalg.averages import ratio_average, time_average
from sigmascope.linalg.batches import spectra
from sigmascope.linalg.conditions import condition_number, log_pseudo_determinant
from sigmascope.linalg.deflation import symmetric_moments
from sigmascope.linalg.eigenvalues import Ends, extreme_eigenvalues
from sigmascope.linalg.estimates import Estimate, entrywise, largest
from sigmascope.linalg.forms import trace_of_forms
from sigmascope.linalg.inertia import count_above, counts_above
from sigmascope.linalg.lanczos import Krylov, krylov_space
from sigmascope.linalg.laws import (
    EdelmanCondition,
    EdgeLaw,
    MarchenkoPastur,
    shifted_limits,
    singular_edge,
    symmetric_edge,
)
from sigmascope.linalg.lyapunov import collapse_depth, lyapunov_exponents, zero_exponents
from sigmascope.linalg.moments import Moments
from sigmascope.linalg.norms import frobenius_norm, schatten_norm, spectral_norm
from sigmascope.linalg.operators import Operator
from sigmascope.linalg.perturbation import (
    SingularDerivative,
    SkipTrajectory,
    singular_value_derivative,
    skip_trajectory,
)
from sigmascope.linalg.quadrature import Density, spectral_density
from sigmascope.linalg.ranks import (
    effective_rank,
    matrix_rank,
    participation_ratio,
    rank_tolerance,
    soft_rank,
    stable_rank,
)
from sigmascope.linalg.spectra import Route, Spectrum, spectrum
from sigmascope.linalg.subspaces import principal_angles
from sigmascope.linalg.traces import trace
from sigmascope.linalg.tracy_widom import TracyWidom

__all__ = [
    "Density",
    "EdelmanCondition",
    "EdgeLaw",
    "Ends",
    "Estimate",
    "Krylov",
    "MarchenkoPastur",
    "Moments",
    "Operator",
    "Route",
    "SingularDerivative",
    "SkipTrajectory",
    "Spectrum",
    "TracyWidom",
    "collapse_depth",
    "condition_number",
    "count_above",
    "counts_above",
    "effective_rank",
    "entrywise",
    "extreme_eigenvalues",
    "frobenius_norm",
    "krylov_space",
    "largest",
    "log_pseudo_determinant",
    "lyapunov_exponents",
    "matrix_rank",
    "participation_ratio",
    "principal_angles",
    "rank_tolerance",
    "ratio_average",
    "schatten_norm",
    "shifted_limits",
    "singular_edge",
    "singular_value_derivative",
    "skip_trajectory",
    "soft_rank",
    "spectra",
    "spectral_density",
    "spectral_norm",
    "spectrum",
    "stable_rank",
    "symmetric_edge",
    "symmetric_moments",
    "time_average",
    "trace",
    "trace_of_forms",
    "zero_exponents",
]
