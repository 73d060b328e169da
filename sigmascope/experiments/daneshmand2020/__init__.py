"""Figures of Daneshmand et al. 2020."""

from sigmascope.experiments.daneshmand2020.chains import FIG3A, FIG8, FIG9
from sigmascope.experiments.daneshmand2020.collinear import FIG3B
from sigmascope.experiments.daneshmand2020.depths import FIG2
from sigmascope.experiments.figures import Figure

FIGURES: tuple[Figure, ...] = (FIG2, FIG3A, FIG3B, FIG8, FIG9)
