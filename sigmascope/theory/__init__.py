"""What four papers prove: facts in, verdicts out; and all that is measured because of them."""

from sigmascope.theory import (
    bottleneck,
    daneshmand2020,
    jacot2023,
    landscape,
    le2022,
    neuron_graph,
    piecewise_affine,
    presentation,
    random_chains,
    riedi2022,
    symmetry,
    views,
)
from sigmascope.theory.bounds import Bound, OfFacts, OfModels
from sigmascope.theory.catalogue import OF_MODELS, THEOREMS, check, check_chain
from sigmascope.theory.comparing import Comparison, compare

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
