"""Which inner dimension a network learns."""

from sigmascope.survey.bottleneck.depths import (
    DepthSweep,
    Fit,
    Segment,
    Trained,
    depth_sweep,
    fit_of,
    read_sweep,
    settle,
)
from sigmascope.survey.bottleneck.predictions import Prediction, predict
from sigmascope.survey.bottleneck.symmetry_coordinates import (
    Coordinates,
    coordinates,
    explained,
    orbit_variance,
    representations,
    self_consistency,
)
from sigmascope.survey.views.bottleneck import inner_dimension

__all__ = [
    "Coordinates",
    "DepthSweep",
    "Fit",
    "Prediction",
    "Segment",
    "Trained",
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
