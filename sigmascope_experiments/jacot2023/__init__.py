"""Figures of Jacot 2023."""

from sigmascope_experiments.figures import Figure
from sigmascope_experiments.jacot2023.depths import FIG1A
from sigmascope_experiments.jacot2023.flexible import EXAMPLE20
from sigmascope_experiments.jacot2023.profiles import FIG1B
from sigmascope_experiments.jacot2023.ranks import RANKS
from sigmascope_experiments.jacot2023.symmetries import FIG2A, FIG2B, FIG2C

FIGURES: tuple[Figure, ...] = (FIG1A, FIG1B, RANKS, FIG2A, FIG2B, FIG2C, EXAMPLE20)

__all__ = ["EXAMPLE20", "FIG1A", "FIG1B", "FIG2A", "FIG2B", "FIG2C", "RANKS"]
