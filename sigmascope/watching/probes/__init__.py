"""What is read of training: each file one kind of reading."""

from sigmascope.watching.probes.activations import Activations
from sigmascope.watching.probes.attention import Attention
from sigmascope.watching.probes.balances import Balances
from sigmascope.watching.probes.base import Found, Probe, handed
from sigmascope.watching.probes.norms import Gradients, Losses, Updates
from sigmascope.watching.probes.representations import Profiles, Representations
from sigmascope.watching.probes.sharpness import ProbeBatch, Sharpness
from sigmascope.watching.probes.spectra import WeightSpectra

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
