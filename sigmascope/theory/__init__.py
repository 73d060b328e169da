"""What four papers prove: facts in, verdicts out; and all that is measured because of them."""

from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING

from sigmascope.theory import (
    bottleneck,
    daneshmand2020,
    jacot2023,
    landscape,
    le2022,
    neuron_graph,
    piecewise_affine,
    random_chains,
    riedi2022,
    symmetry,
    views,
)
from sigmascope.theory.bounds import Bound, OfFacts, OfModels
from sigmascope.theory.catalogue import OF_MODELS, THEOREMS, check, check_chain
from sigmascope.theory.comparing import Comparison, compare

if TYPE_CHECKING:
    from sigmascope.theory import presentation

__all__ = [
    "OF_MODELS",
    "THEOREMS",
    "Bound",
    "Comparison",
    "OfFacts",
    "OfModels",
    "bottleneck",
    "check",
    "check_chain",
    "compare",
    "daneshmand2020",
    "jacot2023",
    "landscape",
    "le2022",
    "neuron_graph",
    "piecewise_affine",
    "presentation",
    "random_chains",
    "riedi2022",
    "symmetry",
    "views",
]


def __getattr__(name: str) -> ModuleType:
    """How results look is loaded when one is shown, and not by whoever measures."""
    if name == "presentation":
        return import_module("sigmascope.theory.presentation")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
