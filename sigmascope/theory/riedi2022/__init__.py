"""Riedi, Balestriero & Baraniuk 2022, singular value perturbation and the loss landscape."""

from collections.abc import Iterator, Mapping

from sigmascope.core.records import Check
from sigmascope.theory.bounds import Bound, OfFacts
from sigmascope.theory.riedi2022 import random_weights
from sigmascope.theory.riedi2022.activations import OF_ACTIVATIONS, Activation
from sigmascope.theory.riedi2022.curvature import (
    CurvatureFactors,
    LossCurvature,
    loss_curvature,
    neuron_limit,
)
from sigmascope.theory.riedi2022.random_weights import (
    OF_RESIDUAL_LAYERS,
    EdelmanLaw,
    ResidualLayer,
)
from sigmascope.theory.riedi2022.skips import (
    OF_SKIPS,
    Skip,
    SkipConditionBounds,
    skip_condition_bounds,
)
from sigmascope.theory.riedi2022.weights import OF_WEIGHTS, HardBounds, Weights, hard_bounds

THEOREMS: tuple[type[Bound], ...] = (
    *OF_SKIPS,
    *OF_ACTIVATIONS,
    *OF_WEIGHTS,
    *OF_RESIDUAL_LAYERS,
    EdelmanLaw,
)
_TABLES: Mapping[type, tuple[type[OfFacts], ...]] = {
    Skip: OF_SKIPS,
    Activation: OF_ACTIVATIONS,
    Weights: OF_WEIGHTS,
    ResidualLayer: OF_RESIDUAL_LAYERS,
}


def checks(facts: Skip | Activation | Weights | ResidualLayer) -> Iterator[Check]:
    """Every theorem about a skip connection, an activation, small weights or a residual layer.

    Args:
        facts: What was measured, from `Skip.of(M, rho)` and the like.

    Example:
        >>> import torch
        >>> found = list(checks(Skip.of(torch.diag(torch.tensor([0.5, -0.25])), 1.0)))
        >>> {str(c.verdict) for c in found} <= {"holds", "consistent"}
        True
    """
    table = next(rows for kind, rows in _TABLES.items() if isinstance(facts, kind))
    return (theorem(facts).check() for theorem in table)


__all__ = [
    "OF_ACTIVATIONS",
    "OF_SKIPS",
    "OF_WEIGHTS",
    "Activation",
    "CurvatureFactors",
    "HardBounds",
    "LossCurvature",
    "Skip",
    "SkipConditionBounds",
    "Weights",
    "hard_bounds",
    "loss_curvature",
    "neuron_limit",
    "random_weights",
    "skip_condition_bounds",
]
