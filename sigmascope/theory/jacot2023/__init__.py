"""Jacot 2023, bottleneck structure in learned features."""

from sigmascope.theory.bounds import OfModels
from sigmascope.theory.jacot2023.constructions import identity_stack, linear_stack
from sigmascope.theory.jacot2023.descents import SymmetryTask, statistics_moved, symmetry_task
from sigmascope.theory.jacot2023.facts import least_norm
from sigmascope.theory.jacot2023.linear import balanced_factors, corrections, linear_cost
from sigmascope.theory.jacot2023.norms import (
    BottleneckFrames,
    Frames,
    JacobianCost,
    JacobianRank,
    OneFrame,
    bottleneck_frames,
    polar,
)
from sigmascope.theory.jacot2023.paths import RankOneFit, rank_one_fit_scaling
from sigmascope.theory.jacot2023.positivity import CompletePositivity, complete_positivity
from sigmascope.theory.jacot2023.products import ProductCorrection
from sigmascope.theory.jacot2023.representations import RepresentationRank, RepresentationSize
from sigmascope.theory.jacot2023.tangents import (
    TangentCurvature,
    balance,
    mixed_derivative,
    ntk_kernel,
    ntk_trace,
)
from sigmascope.theory.jacot2023.variations import (
    JacobianVariation,
    TangentOnSegments,
    jacobian_variation_bound,
)

THEOREMS: tuple[type[OfModels], ...] = (
    JacobianCost,
    JacobianRank,
    BottleneckFrames,
    OneFrame,
    RepresentationSize,
    RepresentationRank,
    TangentCurvature,
    TangentOnSegments,
    JacobianVariation,
    ProductCorrection,
)

__all__ = [
    "BottleneckFrames",
    "CompletePositivity",
    "Frames",
    "JacobianCost",
    "JacobianRank",
    "JacobianVariation",
    "OneFrame",
    "ProductCorrection",
    "RankOneFit",
    "RepresentationRank",
    "RepresentationSize",
    "SymmetryTask",
    "TangentCurvature",
    "TangentOnSegments",
    "balance",
    "balanced_factors",
    "bottleneck_frames",
    "complete_positivity",
    "corrections",
    "identity_stack",
    "jacobian_variation_bound",
    "least_norm",
    "linear_cost",
    "linear_stack",
    "mixed_derivative",
    "ntk_kernel",
    "ntk_trace",
    "polar",
    "rank_one_fit_scaling",
    "statistics_moved",
    "symmetry_task",
]
