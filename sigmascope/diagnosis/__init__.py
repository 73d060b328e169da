"""Profiles in, findings and remedies out."""

from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING

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

if TYPE_CHECKING:
    from sigmascope.diagnosis import presentation

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


def __getattr__(name: str) -> ModuleType:
    """How results look is loaded when one is shown, and not by whoever measures."""
    if name == "presentation":
        return import_module("sigmascope.diagnosis.presentation")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
