"""Daneshmand et al. 2020, "Batch normalization provably avoids rank collapse..."."""

from sigmascope.theory.daneshmand2020.chains import (
    ChainParticipation,
    ChainRank,
    ChainRegularity,
    ChainSize,
    ChainSizeSharp,
    LayerDrift,
    RankOneProducts,
    StationaryDrift,
    drift,
    drift_of_spectrum,
    layer_growth,
    product_exponents,
    small_gamma_exponents,
)
from sigmascope.theory.daneshmand2020.ranks import (
    GradientCollinearity,
    RankParticipation,
    Regularity,
    SoftRank,
    SoftRankAnyScale,
)

__all__ = [
    "ChainParticipation",
    "ChainRank",
    "ChainRegularity",
    "ChainSize",
    "ChainSizeSharp",
    "GradientCollinearity",
    "LayerDrift",
    "RankOneProducts",
    "RankParticipation",
    "Regularity",
    "SoftRank",
    "SoftRankAnyScale",
    "StationaryDrift",
    "drift",
    "drift_of_spectrum",
    "layer_growth",
    "product_exponents",
    "small_gamma_exponents",
]
