"""Whether training stays the same as a model grows wider."""

from sigmascope.scaling.exponents import ScalingLaw, power_law
from sigmascope.scaling.rates import BestRate, moved
from sigmascope.scaling.transfer import WIDTHS, Obstacle, WeightScaling, Widths, made_at, widths

__all__ = [
    "WIDTHS",
    "BestRate",
    "Obstacle",
    "ScalingLaw",
    "WeightScaling",
    "Widths",
    "made_at",
    "moved",
    "power_law",
    "widths",
]
