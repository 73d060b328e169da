"""Scans of checkpoints, put in order for text, JSON, tables and pages."""

from sigmascope.report.scans.columns import columns, plan_columns
from sigmascope.report.scans.forms import matrix_form
from sigmascope.report.scans.groups import by_kind, pairs, reasons, seen
from sigmascope.report.scans.outliers import Outlier, outliers

__all__ = [
    "Outlier",
    "by_kind",
    "columns",
    "matrix_form",
    "outliers",
    "pairs",
    "plan_columns",
    "reasons",
    "seen",
]
