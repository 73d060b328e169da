"""Rules: profiles in, findings out."""

from sigmascope.diagnosis.rules.balances import broken_balances
from sigmascope.diagnosis.rules.catalogue import RULES, diagnose
from sigmascope.diagnosis.rules.fit import UNFIT
from sigmascope.diagnosis.rules.hearing import Unheard, unheard

__all__ = ["RULES", "UNFIT", "Unheard", "broken_balances", "diagnose", "unheard"]
