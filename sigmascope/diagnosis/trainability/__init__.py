"""The probability that plain training fits, from a few steps on copies."""

from sigmascope.diagnosis.trainability.model import (
    TrainabilityModel,
    fit_trainability,
    foretold,
    probability,
    trainability,
)
from sigmascope.diagnosis.trainability.short_runs import (
    RATES,
    Curve,
    Optimiser,
    Probe,
    optimiser_of,
    probe,
)

__all__ = [
    "RATES",
    "Curve",
    "Optimiser",
    "Probe",
    "TrainabilityModel",
    "fit_trainability",
    "foretold",
    "optimiser_of",
    "probability",
    "probe",
    "trainability",
]
