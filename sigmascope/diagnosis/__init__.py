"""Profiles in, findings and remedies out."""

from typing import TYPE_CHECKING

import lazy_loader

from sigmascope.diagnosis import (
    checkpoints,
    compression,
    cures,
    programs,
    ranking,
    remedies,
    rules,
    trainability,
)
from sigmascope.diagnosis.diagnoses import Diagnosis, diagnose
from sigmascope.diagnosis.engine import judge
from sigmascope.diagnosis.layer_rates import LayerRates, layer_rates
from sigmascope.diagnosis.programs import Program
from sigmascope.diagnosis.trainability import probability
from sigmascope.diagnosis.treatments import (
    RemedyTrials,
    Treatment,
    assess,
    last_ratio,
    treat,
    trial,
)

if TYPE_CHECKING:
    from sigmascope.diagnosis import presentation

__all__ = [
    "Diagnosis",
    "LayerRates",
    "Program",
    "RemedyTrials",
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

# how results look is loaded when one is shown, and not by whoever measures
__getattr__, _, _ = lazy_loader.attach(__name__, submodules=["presentation"])
