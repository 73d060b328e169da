"""The probability that plain training fits, from a few steps on copies."""

from sigmascope.diagnosis.trainability.copies import RATES, Optimizer, optimizer_of
from sigmascope.diagnosis.trainability.curves import Curve, EarlyTraining
from sigmascope.diagnosis.trainability.forecasts import (
    Example,
    ForecastModel,
    fit_forecasts,
    forecast,
)
from sigmascope.diagnosis.trainability.model import (
    TrainabilityModel,
    fit_trainability,
    foretold,
    probability,
    trainability,
)
from sigmascope.diagnosis.trainability.scores import ScoreModel, fit_scores
from sigmascope.diagnosis.trainability.short_runs import Probing, probe

__all__ = [
    "RATES",
    "Curve",
    "EarlyTraining",
    "Example",
    "ForecastModel",
    "Optimizer",
    "Probing",
    "ScoreModel",
    "TrainabilityModel",
    "fit_forecasts",
    "fit_scores",
    "fit_trainability",
    "forecast",
    "foretold",
    "optimizer_of",
    "probability",
    "probe",
    "trainability",
]
