"""Rules: profiles in, findings out."""

from sigmascope.diagnosis.rules.catalogue import KINDS, RULES, Unheard, unheard
from sigmascope.diagnosis.rules.outputs import UNFIT

__all__ = [
    "KINDS",
    "RULES",
    "UNFIT",
    "Unheard",
    "unheard",
]
