"""Models in, profiles out."""

from sigmascope.survey.bottlenecks import counted, middle_half
from sigmascope.survey.comparisons import Change, Comparison, compare
from sigmascope.survey.curvatures import Bend, Bends, curvature
from sigmascope.survey.depth_sweeps import depth_sweep
from sigmascope.survey.dimensions import inner_dimension
from sigmascope.survey.fits import Fit, fit_of
from sigmascope.survey.landscapes import Landscape, LayerCurvature, landscape
from sigmascope.survey.minima import DepthSweep, Segment, Trained, read_sweep
from sigmascope.survey.monitors import Monitor
from sigmascope.survey.orbits import (
    Coordinates,
    coordinates,
    explained,
    orbit_variance,
    representations,
    self_consistency,
)
from sigmascope.survey.predictions import Prediction, predict
from sigmascope.survey.profiles import Progress, named, profile
from sigmascope.survey.readings import (
    ALL,
    EVERY,
    Layer,
    Profile,
    Reading,
    SiteSpectrum,
    Skipped,
    View,
)
from sigmascope.survey.regions import Regions, input_regions
from sigmascope.survey.settling import settle
from sigmascope.survey.surfaces import Plane, Surface, loss_line, loss_surface
from sigmascope.survey.tasks import constant_loss
from sigmascope.survey.variants import what_if

__all__ = [
    "ALL",
    "EVERY",
    "Bend",
    "Bends",
    "Change",
    "Comparison",
    "Coordinates",
    "DepthSweep",
    "Fit",
    "Landscape",
    "Layer",
    "LayerCurvature",
    "Monitor",
    "Plane",
    "Prediction",
    "Profile",
    "Progress",
    "Reading",
    "Regions",
    "Segment",
    "SiteSpectrum",
    "Skipped",
    "Surface",
    "Trained",
    "View",
    "compare",
    "constant_loss",
    "coordinates",
    "counted",
    "curvature",
    "depth_sweep",
    "explained",
    "fit_of",
    "inner_dimension",
    "input_regions",
    "landscape",
    "loss_line",
    "loss_surface",
    "middle_half",
    "named",
    "orbit_variance",
    "predict",
    "profile",
    "read_sweep",
    "representations",
    "self_consistency",
    "settle",
    "what_if",
]
