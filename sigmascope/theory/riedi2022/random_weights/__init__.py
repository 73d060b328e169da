"""Layers whose weights are drawn from a law: bounds with a chance of failure."""

from sigmascope.theory.riedi2022.random_weights.edelman import EdelmanLaw
from sigmascope.theory.riedi2022.random_weights.residual_layers import (
    OF_RESIDUAL_LAYERS,
    ResidualLayer,
)
from sigmascope.theory.riedi2022.random_weights.scales import (
    WeightScale,
    chance_of_negative,
    chance_of_norm,
    condition_limits,
    weight_scale,
    weight_spread,
)

__all__ = [
    "OF_RESIDUAL_LAYERS",
    "EdelmanLaw",
    "ResidualLayer",
    "WeightScale",
    "chance_of_negative",
    "chance_of_norm",
    "condition_limits",
    "weight_scale",
    "weight_spread",
]
