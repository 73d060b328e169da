"""Profiles in, findings and remedies out."""

from sigmascope.diagnosis.findings import Finding, Severity
from sigmascope.diagnosis.rules import RULES, diagnose

__all__ = ["RULES", "Finding", "Severity", "diagnose"]
