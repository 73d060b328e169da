"""Profiles in, findings and remedies out."""

from sigmascope.diagnosis.balances import broken_balances
from sigmascope.diagnosis.bottlenecks import Bottleneck, Evidence, bottleneck
from sigmascope.diagnosis.compressing import Compression, Truncation, compression
from sigmascope.diagnosis.cures import REMEDIES, Together, remedies_for, remedy
from sigmascope.diagnosis.findings import Finding, Severity
from sigmascope.diagnosis.normalising import (
    BatchNormalisation,
    LayerNormalisation,
    NormalisationEffect,
    normalisation_effect,
)
from sigmascope.diagnosis.pretraining import RankPretraining
from sigmascope.diagnosis.probing import (
    RATES,
    Curve,
    Optimiser,
    Probe,
    optimiser_of,
    probe,
)
from sigmascope.diagnosis.rates import layer_rates
from sigmascope.diagnosis.reinitialising import RecentreWeights, Reinitialise
from sigmascope.diagnosis.remedies import Inapplicable, Remedy
from sigmascope.diagnosis.residuals import RescaleResidual
from sigmascope.diagnosis.rules import RULES, diagnose
from sigmascope.diagnosis.scaling import QuietOutput, StandardiseInputs, UnitScale
from sigmascope.diagnosis.skipping import SkipConnections, ZeroBranches
from sigmascope.diagnosis.trainability import (
    TrainabilityModel,
    fit_trainability,
    foretold,
    probability,
    trainability,
)
from sigmascope.diagnosis.treatments import (
    Treatment,
    assess,
    last_ratio,
    pairs,
    ranked,
    treat,
    trial,
)

__all__ = [
    "RATES",
    "REMEDIES",
    "RULES",
    "BatchNormalisation",
    "Bottleneck",
    "Compression",
    "Curve",
    "Evidence",
    "Finding",
    "Inapplicable",
    "LayerNormalisation",
    "NormalisationEffect",
    "Optimiser",
    "Probe",
    "QuietOutput",
    "RankPretraining",
    "RecentreWeights",
    "Reinitialise",
    "Remedy",
    "RescaleResidual",
    "Severity",
    "SkipConnections",
    "StandardiseInputs",
    "Together",
    "TrainabilityModel",
    "Treatment",
    "Truncation",
    "UnitScale",
    "ZeroBranches",
    "assess",
    "bottleneck",
    "broken_balances",
    "compression",
    "diagnose",
    "fit_trainability",
    "foretold",
    "last_ratio",
    "layer_rates",
    "normalisation_effect",
    "optimiser_of",
    "pairs",
    "probability",
    "probe",
    "ranked",
    "remedies_for",
    "remedy",
    "trainability",
    "treat",
    "trial",
]
