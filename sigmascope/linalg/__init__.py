"""Matrices in, numbers out."""

from sigmascope.linalg import dense, krylov, random_matrix, ranks, spectra
from sigmascope.linalg.lyapunov import (
    collapse_depth,
    lyapunov_exponents,
    ratio_average,
    time_average,
    zero_exponents,
)
from sigmascope.linalg.measures import Measures, measure
from sigmascope.linalg.norms import frobenius_norm, schatten_norm, spectral_norm
from sigmascope.linalg.perturbation import (
    SingularDerivative,
    SkipTrajectory,
    singular_value_derivative,
    skip_trajectory,
)
from sigmascope.linalg.ranks import (
    condition_number,
    effective_rank,
    energy_rank,
    log_pseudo_determinant,
    matrix_rank,
    participation_ratio,
    soft_rank,
    spectral_entropy,
    stable_rank,
)

__all__ = [
    "Measures",
    "SingularDerivative",
    "SkipTrajectory",
    "collapse_depth",
    "condition_number",
    "dense",
    "effective_rank",
    "energy_rank",
    "frobenius_norm",
    "krylov",
    "log_pseudo_determinant",
    "lyapunov_exponents",
    "matrix_rank",
    "measure",
    "participation_ratio",
    "random_matrix",
    "ranks",
    "ratio_average",
    "schatten_norm",
    "singular_value_derivative",
    "skip_trajectory",
    "soft_rank",
    "spectra",
    "spectral_entropy",
    "spectral_norm",
    "stable_rank",
    "time_average",
    "zero_exponents",
]
