"""Figures of Daneshmand et al. 2020."""

from sigmascope_experiments.daneshmand2020.chains import FIG3A, FIG8, FIG9
from sigmascope_experiments.daneshmand2020.collinear import FIG3B
from sigmascope_experiments.daneshmand2020.depths import FIG2
from sigmascope_experiments.daneshmand2020.trainings import (
    DIGITS,
    FIG1,
    FIG4,
    FIG5,
    FIG6,
    FIG7,
    FIG10,
    FIG11,
    FIG12,
    FIG13,
)
from sigmascope_experiments.figures import Figure

FIGURES: tuple[Figure, ...] = (
    FIG1,
    FIG2,
    FIG3A,
    FIG3B,
    FIG4,
    FIG5,
    FIG6,
    FIG7,
    FIG8,
    FIG9,
    FIG10,
    FIG11,
    FIG12,
    FIG13,
    DIGITS,
)

__all__ = [
    "DIGITS",
    "FIG1",
    "FIG2",
    "FIG3A",
    "FIG3B",
    "FIG4",
    "FIG5",
    "FIG6",
    "FIG7",
    "FIG8",
    "FIG9",
    "FIG10",
    "FIG11",
    "FIG12",
    "FIG13",
]
