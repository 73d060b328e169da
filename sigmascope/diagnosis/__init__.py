"""Profiles in, findings and remedies out."""

from sigmascope.diagnosis import (
    checkpoints,
    compression,
    cures,
    presentation,
    programs,
    ranking,
    remedies,
    rules,
    trainability,
)
from sigmascope.diagnosis.diagnoses import Diagnosis, diagnose
from sigmascope.diagnosis.engine import judge
from sigmascope.diagnosis.layer_rates import layer_rates
from sigmascope.diagnosis.programs import Program
from sigmascope.diagnosis.trainability import probability
from sigmascope.diagnosis.treatments import (
    Treatment,
    assess,
    last_ratio,
    treat,
    trial,
)

__all__ = [
    "Diagnosis",
    "Program",
    "Treatment",
    "assess",
    "checkpoints",
    "compression",
    "cures",
    "diagnose",
    "judge",
    "last_ratio",
    "layer_rates",
    "presentation",
    "probability",
    "programs",
    "ranking",
    "remedies",
    "rules",
    "trainability",
    "treat",
    "trial",
]
