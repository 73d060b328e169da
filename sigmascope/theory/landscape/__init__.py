"""The loss around a model: conditioning, Hessian, planes and lines, regions."""

from sigmascope.theory.landscape.conditioning import Landscape, LayerCurvature, landscape, what_if
from sigmascope.theory.landscape.curvature import Bend, Bends, curvature
from sigmascope.theory.landscape.surfaces import (
    Plane,
    Regions,
    Surface,
    input_regions,
    loss_line,
    loss_surface,
)

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
