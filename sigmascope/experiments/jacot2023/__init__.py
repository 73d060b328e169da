"""Figures of Jacot 2023."""

from sigmascope.experiments.figures import Figure
from sigmascope.experiments.jacot2023.depths import FIG1A

FIGURES: tuple[Figure, ...] = (FIG1A,)
