"""Models in, profiles out."""

from sigmascope.survey.comparisons import Change, Comparison, compare
from sigmascope.survey.curvatures import Bend, Bends, curvature
from sigmascope.survey.landscapes import Landscape, LayerCurvature, landscape
from sigmascope.survey.monitors import Monitor
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
from sigmascope.survey.surfaces import Plane, Surface, loss_line, loss_surface
from sigmascope.survey.variants import what_if

__all__ = [
    "ALL",
    "EVERY",
    "Bend",
    "Bends",
    "Change",
    "Comparison",
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
    "SiteSpectrum",
    "Skipped",
    "Surface",
    "View",
    "compare",
    "curvature",
    "input_regions",
    "landscape",
    "loss_line",
    "loss_surface",
    "named",
    "predict",
    "profile",
    "what_if",
]
