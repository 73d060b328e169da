"""Whether training stays the same as a model grows wider, or deeper."""

from sigmascope.diagnosis.scaling.exponents import ScalingLaw, power_law
from sigmascope.diagnosis.scaling.page import widths_page
from sigmascope.diagnosis.scaling.rates import BestRate, moved
from sigmascope.diagnosis.scaling.results import Obstacle, Roles, WeightScaling, Widths
from sigmascope.diagnosis.scaling.transfer import WIDTHS, Family, family_of, widths

__all__ = [
    "WIDTHS",
    "BestRate",
    "Family",
    "Obstacle",
    "Roles",
    "ScalingLaw",
    "WeightScaling",
    "Widths",
    "family_of",
    "moved",
    "power_law",
    "widths",
    "widths_page",
]
