"""Models in, profiles out."""

from sigmascope.survey.landscapes import Landscape, LayerCurvature, landscape, what_if
from sigmascope.survey.predictions import Prediction, predict
from sigmascope.survey.profiles import Progress, named, profile
from sigmascope.survey.readings import ALL, Layer, Profile, Reading, SiteSpectrum, Skipped, View

__all__ = [
    "ALL",
    "Landscape",
    "Layer",
    "LayerCurvature",
    "Prediction",
    "Profile",
    "Progress",
    "Reading",
    "SiteSpectrum",
    "Skipped",
    "View",
    "landscape",
    "named",
    "predict",
    "profile",
    "what_if",
]
