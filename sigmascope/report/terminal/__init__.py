"""Results as text."""

from sigmascope.report.terminal import (  # each says what its results look like
    balances,
    bottlenecks,
    comparisons,
    compressions,
    curvature,
    diagnoses,
    landscapes,
    partings,
    predictions,
    profile,
    rankings,
    scales,
    scan_plans,
    scans,
    slices,
    sweeps,
    theorems,
    treatments,
)
from sigmascope.report.terminal.screens import html, text
from sigmascope.report.terminal.theorems import theorems_text

__all__ = [
    "balances",
    "bottlenecks",
    "comparisons",
    "compressions",
    "curvature",
    "diagnoses",
    "html",
    "landscapes",
    "partings",
    "predictions",
    "profile",
    "rankings",
    "scales",
    "scan_plans",
    "scans",
    "slices",
    "sweeps",
    "text",
    "theorems",
    "theorems_text",
    "treatments",
]
