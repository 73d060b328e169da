"""What is read of training."""

from sigmascope.watching.probes.activations import Activations, Profiles, Representations
from sigmascope.watching.probes.attention import Attention
from sigmascope.watching.probes.base import Found, Probe, handed
from sigmascope.watching.probes.norms import Gradients, Losses, Updates
from sigmascope.watching.probes.sharpness import ProbeBatch, Sharpness
from sigmascope.watching.probes.weights import Balances, WeightSpectra

__all__ = [
    "Activations",
    "Attention",
    "Balances",
    "Found",
    "Gradients",
    "Losses",
    "Probe",
    "ProbeBatch",
    "Profiles",
    "Representations",
    "Sharpness",
    "Updates",
    "WeightSpectra",
    "handed",
]
