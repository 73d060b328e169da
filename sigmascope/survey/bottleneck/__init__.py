"""Which inner dimension a network learns."""

from sigmascope.survey.bottleneck.depth_sweeps import depth_sweep
from sigmascope.survey.bottleneck.inner_dimensions import inner_dimension
from sigmascope.survey.bottleneck.noise_fit import Fit, fit_of
from sigmascope.survey.bottleneck.penalised_training import settle
from sigmascope.survey.bottleneck.predictions import Prediction, predict
from sigmascope.survey.bottleneck.symmetry_coordinates import (
    Coordinates,
    coordinates,
    explained,
    orbit_variance,
    representations,
    self_consistency,
)
from sigmascope.survey.bottleneck.trained_depths import DepthSweep, Segment, Trained, read_sweep

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
