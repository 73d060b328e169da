"""Figures in the manner of Le & Jegelka 2022, whose paper has none."""

from sigmascope_experiments.figures import Figure
from sigmascope_experiments.le2022.images import IMAGES
from sigmascope_experiments.le2022.steps import STEPS
from sigmascope_experiments.le2022.tails import TAILS

FIGURES: tuple[Figure, ...] = (TAILS, IMAGES, STEPS)

__all__ = ["IMAGES", "STEPS", "TAILS"]
