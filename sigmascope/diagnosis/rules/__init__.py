"""Rules: profiles in, findings out."""

from sigmascope.diagnosis.rules.balances import broken_balances
from sigmascope.diagnosis.rules.catalogue import RULES, diagnose

__all__ = ["RULES", "broken_balances", "diagnose"]
