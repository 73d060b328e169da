"""Models in, profiles out."""

from sigmascope.survey.curvatures import Bend, Bends, curvature
from sigmascope.survey.landscapes import Landscape, LayerCurvature, landscape
from sigmascope.survey.predictions import Prediction, predict
from sigmascope.survey.profiles import Progress, named, profile
from sigmascope.survey.readings import ALL, Layer, Profile, Reading, SiteSpectrum, Skipped, View
from sigmascope.survey.regions import Regions, input_regions
from sigmascope.survey.surfaces import Plane, Surface, loss_line, loss_surface
from sigmascope.survey.variants import what_if

__all__ = [
    "ALL",
    "Bend",
    "Bends",
    "Landscape",
    "Layer",
    "LayerCurvature",
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
