"""Profiles in, findings and remedies out."""

from sigmascope.diagnosis import compression, remedies, rules, trainability
from sigmascope.diagnosis.bottlenecks import Bottleneck, Evidence, bottleneck
from sigmascope.diagnosis.learning_rates import layer_rates
from sigmascope.diagnosis.ranking import Entry, Ranked, rank, ranked_entries
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
    "Bottleneck",
    "Entry",
    "Evidence",
    "Ranked",
    "Treatment",
    "assess",
    "bottleneck",
    "compression",
    "last_ratio",
    "layer_rates",
    "pairs",
    "rank",
    "ranked",
    "ranked_entries",
    "remedies",
    "rules",
    "trainability",
    "treat",
    "trial",
]
