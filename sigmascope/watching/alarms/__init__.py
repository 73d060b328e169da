"""Alarms of training: what they rest on, and when they begin and end."""

from sigmascope.watching.alarms.rules import ALARMS, KINDS, RULES, Alarms

__all__ = ["ALARMS", "KINDS", "RULES", "Alarms"]
