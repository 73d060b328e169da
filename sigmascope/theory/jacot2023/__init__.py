"""Jacot 2023, bottleneck structure in learned features."""

from sigmascope.theory.bounds import OfModels
from sigmascope.theory.jacot2023 import constructions
from sigmascope.theory.jacot2023.facts import least_norm
from sigmascope.theory.jacot2023.norms import (
    BottleneckFrames,
    Frames,
    JacobianCost,
    JacobianRank,
    OneFrame,
    bottleneck_frames,
    polar,
)
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
    "mixed_derivative",
    "ntk_kernel",
    "ntk_trace",
    "polar",
]
