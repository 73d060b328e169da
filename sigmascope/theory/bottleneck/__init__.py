"""Which inner dimension a network learns."""

from sigmascope.theory.bottleneck.depths import (
    DepthSweep,
    Fit,
    RankPlateau,
    Trained,
    depth_sweep,
    fit_of,
    read_sweep,
    settle,
)
from sigmascope.theory.bottleneck.predictions import Prediction, predict
from sigmascope.theory.bottleneck.symmetry_coordinates import (
    Coordinates,
    coordinates,
    explained,
    orbit_variance,
    representations,
    self_consistency,
)
from sigmascope.theory.bottleneck.verdicts import Bottleneck, Evidence, bottleneck
from sigmascope.theory.views.bottleneck import inner_dimension

__all__ = [
    "Bottleneck",
    "Coordinates",
    "DepthSweep",
    "Evidence",
    "Fit",
    "Prediction",
    "RankPlateau",
    "Trained",
    "bottleneck",
    "coordinates",
    "depth_sweep",
    "explained",
    "fit_of",
    "inner_dimension",
    "orbit_variance",
    "predict",
    "read_sweep",
    "representations",
    "self_consistency",
    "settle",
]
