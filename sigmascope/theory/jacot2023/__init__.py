"""Jacot 2023, bottleneck structure in learned features."""

from sigmascope.theory.bounds import OfModels
from sigmascope.theory.jacot2023 import constructions
from sigmascope.theory.jacot2023.facts import least_norm
from sigmascope.theory.jacot2023.norms import (
    BottleneckFrames,
    Frames,
    JacobianCost,
    JacobianRank,
    JacobianVariation,
    OneFrame,
    ProductCorrection,
    TangentOnSegments,
    bottleneck_frames,
    jacobian_variation_bound,
    polar,
    representation_cost,
)
from sigmascope.theory.jacot2023.tangents import (
    RepresentationRank,
    RepresentationSize,
    TangentCurvature,
    balance,
    ntk_kernel,
    ntk_trace,
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
    "Frames",
    "JacobianCost",
    "JacobianRank",
    "JacobianVariation",
    "OneFrame",
    "ProductCorrection",
    "RepresentationRank",
    "RepresentationSize",
    "TangentCurvature",
    "TangentOnSegments",
    "balance",
    "bottleneck_frames",
    "constructions",
    "jacobian_variation_bound",
    "least_norm",
    "ntk_kernel",
    "ntk_trace",
    "polar",
    "representation_cost",
]
