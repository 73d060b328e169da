"""What four papers prove: facts in, verdicts out; and all that is measured because of them."""

from typing import TYPE_CHECKING

import lazy_loader

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

# how results look is loaded when one is shown, and not by whoever measures
__getattr__, _, _ = lazy_loader.attach(__name__, submodules=["presentation"])
