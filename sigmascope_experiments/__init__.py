"""Figures of the papers, each reproduced by one command, and the log of what was tried.

Beside the library, not in it: no user of the library runs them, and `sigmascope reproduce` does.
"""

from sigmascope_experiments import daneshmand2020, jacot2023, le2022, riedi2022
from sigmascope_experiments.figures import Claim, Figure
from sigmascope_experiments.runs import Result, reproduce

FIGURES: tuple[Figure, ...] = (
    *daneshmand2020.FIGURES,
    *jacot2023.FIGURES,
    *le2022.FIGURES,
    *riedi2022.FIGURES,
)

__all__ = [
    "Claim",
    "Figure",
    "Result",
    "daneshmand2020",
    "jacot2023",
    "le2022",
    "reproduce",
    "riedi2022",
]
