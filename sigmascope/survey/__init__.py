"""Models in, profiles out."""

from sigmascope.survey.predictions import Prediction, predict
from sigmascope.survey.profiles import Progress, named, profile
from sigmascope.survey.readings import ALL, Layer, Profile, Reading, SiteSpectrum, Skipped, View

__all__ = [
    "ALL",
    "Layer",
    "Prediction",
    "Profile",
    "Progress",
    "Reading",
    "SiteSpectrum",
    "Skipped",
    "View",
    "named",
    "predict",
    "profile",
]
