"""Results as text."""

from sigmascope.report.terminal import (
    bottlenecks,
    comparisons,
    diagnoses,
    landscapes,
    profile,
    scans,
)
from sigmascope.report.terminal.profile import theorems_text
from sigmascope.report.terminal.screens import html, text

__all__ = [
    "bottlenecks",
    "comparisons",
    "diagnoses",
    "html",
    "landscapes",
    "profile",
    "scans",
    "text",
    "theorems_text",
]
