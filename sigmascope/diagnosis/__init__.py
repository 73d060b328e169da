"""Profiles in, findings and remedies out."""

from sigmascope.diagnosis.balances import broken_balances
from sigmascope.diagnosis.bottlenecks import Bottleneck, Evidence, bottleneck
from sigmascope.diagnosis.compressing import Compression, Truncation, compression
from sigmascope.diagnosis.cures import REMEDIES, remedies_for, remedy
from sigmascope.diagnosis.findings import Finding, Severity
from sigmascope.diagnosis.normalising import (
    BatchNormalisation,
    NormalisationEffect,
    normalisation_effect,
)
from sigmascope.diagnosis.pretraining import RankPretraining
from sigmascope.diagnosis.reinitialising import RecentreWeights, Reinitialise
from sigmascope.diagnosis.remedies import Inapplicable, Remedy
from sigmascope.diagnosis.residuals import RescaleResidual
from sigmascope.diagnosis.rules import RULES, diagnose
from sigmascope.diagnosis.treatments import Treatment, last_ratio, ranked, treat

__all__ = [
    "REMEDIES",
    "RULES",
    "BatchNormalisation",
    "Bottleneck",
    "Compression",
    "Evidence",
    "Finding",
    "Inapplicable",
    "NormalisationEffect",
    "RankPretraining",
    "RecentreWeights",
    "Reinitialise",
    "Remedy",
    "RescaleResidual",
    "Severity",
    "Treatment",
    "Truncation",
    "bottleneck",
    "broken_balances",
    "compression",
    "diagnose",
    "last_ratio",
    "normalisation_effect",
    "ranked",
    "remedies_for",
    "remedy",
    "treat",
]
