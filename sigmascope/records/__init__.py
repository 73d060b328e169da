"""What is said: numbers with intervals, readings, checks, findings. Declared once."""

from sigmascope.quantities import ALL, EVERY, View
from sigmascope.records.estimate import Estimate, entrywise, largest
from sigmascope.records.findings import Finding, Kind, Rule, Severity, kinds_of, rule
from sigmascope.records.profile import (
    Assumption,
    Check,
    Item,
    Layer,
    Profile,
    Reading,
    Sense,
    SiteSpectrum,
    Skipped,
    Spectrum,
    Verdict,
)
from sigmascope.records.shown import Shown

__all__ = [
    "ALL",
    "EVERY",
    "Assumption",
    "Check",
    "Estimate",
    "Finding",
    "Item",
    "Kind",
    "Layer",
    "Profile",
    "Reading",
    "Rule",
    "Sense",
    "Severity",
    "Shown",
    "SiteSpectrum",
    "Skipped",
    "Spectrum",
    "Verdict",
    "View",
    "entrywise",
    "kinds_of",
    "largest",
    "rule",
]
