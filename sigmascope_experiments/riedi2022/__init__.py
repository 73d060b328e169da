"""Figures of Riedi, Balestriero & Baraniuk 2022."""

from sigmascope_experiments.figures import Figure
from sigmascope_experiments.riedi2022.edges import FIG4, FIG5
from sigmascope_experiments.riedi2022.partitions import FIG3
from sigmascope_experiments.riedi2022.planes import FIG1
from sigmascope_experiments.riedi2022.residuals import FIG6, FIG7
from sigmascope_experiments.riedi2022.toys import FIG8
from sigmascope_experiments.riedi2022.trajectories import FIG2

FIGURES: tuple[Figure, ...] = (FIG1, FIG2, FIG3, FIG4, FIG5, FIG6, FIG7, FIG8)

__all__ = ["FIG1", "FIG2", "FIG3", "FIG4", "FIG5", "FIG6", "FIG7", "FIG8"]
