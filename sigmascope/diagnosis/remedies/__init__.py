"""Remedies: a model in, a changed copy out."""

from sigmascope.diagnosis.remedies.base import Inapplicable, Remedy
from sigmascope.diagnosis.remedies.batch_normalisation import (
    BatchNormalisation,
    LayerNormalisation,
    NormalisationEffect,
    normalisation_effect,
)
from sigmascope.diagnosis.remedies.catalogue import (
    REMEDIES,
    Together,
    in_code,
    remedies_for,
    remedy,
)
from sigmascope.diagnosis.remedies.rank_pretraining import RankPretraining
from sigmascope.diagnosis.remedies.reinitialisation import RecentreWeights, Reinitialise
from sigmascope.diagnosis.remedies.skip_connections import (
    RescaleResidual,
    SkipConnections,
    ZeroBranches,
)
from sigmascope.diagnosis.remedies.unit_scale import QuietOutput, StandardiseInputs, UnitScale

__all__ = [
    "REMEDIES",
    "BatchNormalisation",
    "Inapplicable",
    "LayerNormalisation",
    "NormalisationEffect",
    "QuietOutput",
    "RankPretraining",
    "RecentreWeights",
    "Reinitialise",
    "Remedy",
    "RescaleResidual",
    "SkipConnections",
    "StandardiseInputs",
    "Together",
    "UnitScale",
    "ZeroBranches",
    "in_code",
    "normalisation_effect",
    "remedies_for",
    "remedy",
]
