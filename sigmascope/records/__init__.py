"""What is said: numbers with intervals, readings, checks, findings. Declared once."""

from sigmascope.quantities import ALL, EVERY, View
from sigmascope.records.check import Assumption, Check, Sense, Verdict
from sigmascope.records.estimate import Estimate, entrywise, largest
from sigmascope.records.finding import Finding, Severity
from sigmascope.records.kind import Kind
from sigmascope.records.profile import (
    Item,
    Layer,
    Profile,
    Reading,
    SiteSpectrum,
    Skipped,
)
from sigmascope.records.rule import Rule, kinds_of, rule
from sigmascope.records.shown import Shown
from sigmascope.records.spectrum import Spectrum

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
