"""Facts in, verdicts out."""

from sigmascope.theory.bounds import Assumption, Bound, Check, Sense, Verdict
from sigmascope.theory.catalogue import THEOREMS, check
from sigmascope.theory.daneshmand2020 import (
    GradientCollinearity,
    RankParticipation,
    SoftRank,
    SoftRankAnyScale,
)

__all__ = [
    "THEOREMS",
    "Assumption",
    "Bound",
    "Check",
    "GradientCollinearity",
    "RankParticipation",
    "Sense",
    "SoftRank",
    "SoftRankAnyScale",
    "Verdict",
    "check",
]
