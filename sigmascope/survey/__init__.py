"""Models in, profiles out."""

from sigmascope.survey.comparisons import Change, Comparison, compare
from sigmascope.survey.curvatures import Bend, Bends, curvature
from sigmascope.survey.depth_sweeps import DepthSweep, Segment, Trained, depth_sweep, read_sweep
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
    "DepthSweep",
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
    "curvature",
    "depth_sweep",
    "input_regions",
    "landscape",
    "loss_line",
    "loss_surface",
    "named",
    "predict",
    "profile",
    "read_sweep",
    "what_if",
]
