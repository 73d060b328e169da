"""Facts in, verdicts out."""

from sigmascope.theory import daneshmand2020, jacot2023, le2022, riedi2022
from sigmascope.theory.bounds import Bound, OfFacts, OfModels
from sigmascope.theory.catalogue import OF_MODELS, THEOREMS, check, check_chain

__all__ = [
    "OF_MODELS",
    "THEOREMS",
    "Bound",
    "OfFacts",
    "OfModels",
    "check",
    "check_chain",
    "daneshmand2020",
    "jacot2023",
    "le2022",
    "riedi2022",
]
