"""The loss around a model: conditioning, Hessian, planes and lines, regions."""

from sigmascope.survey.landscape.hessians import Bend, Bends, curvature
from sigmascope.survey.landscape.layer_conditioning import Landscape, LayerCurvature, landscape
from sigmascope.survey.landscape.loss_surfaces import Plane, Surface, loss_line, loss_surface
from sigmascope.survey.landscape.regions import Regions, input_regions
from sigmascope.survey.landscape.what_ifs import what_if

__all__ = [
    "Bend",
    "Bends",
    "Landscape",
    "LayerCurvature",
    "Plane",
    "Regions",
    "Surface",
    "curvature",
    "input_regions",
    "landscape",
    "loss_line",
    "loss_surface",
    "what_if",
]
