"""Results in, text out."""

from sigmascope.report.balances import balances_form, balances_text
from sigmascope.report.bottlenecks import bottleneck_form, bottleneck_text, coordinates_picture
from sigmascope.report.columns import table
from sigmascope.report.comparisons import comparison_form, comparison_text
from sigmascope.report.compressions import compression_form, compression_text
from sigmascope.report.coverage import Coverage, coverage
from sigmascope.report.forms import json_form
from sigmascope.report.landscape_page import landscape_page
from sigmascope.report.landscapes import Scenery, landscape_form, landscape_text
from sigmascope.report.plain import text
from sigmascope.report.predictions import prediction_form, prediction_text
from sigmascope.report.profile_page import page
from sigmascope.report.scales import scale_form, scale_text
from sigmascope.report.schema import SCHEMA
from sigmascope.report.sweeps import sweep_form, sweep_text
from sigmascope.report.theorems import checks_form, checks_text, theorems_text
from sigmascope.report.treatments import (
    treatment_form,
    treatment_text,
    treatments_form,
    treatments_text,
)
from sigmascope.report.trees import tree_picture

__all__ = [
    "SCHEMA",
    "Coverage",
    "Scenery",
    "balances_form",
    "balances_text",
    "bottleneck_form",
    "bottleneck_text",
    "checks_form",
    "checks_text",
    "comparison_form",
    "comparison_text",
    "compression_form",
    "compression_text",
    "coordinates_picture",
    "coverage",
    "json_form",
    "landscape_form",
    "landscape_page",
    "landscape_text",
    "page",
    "prediction_form",
    "prediction_text",
    "scale_form",
    "scale_text",
    "sweep_form",
    "sweep_text",
    "table",
    "text",
    "theorems_text",
    "treatment_form",
    "treatment_text",
    "treatments_form",
    "treatments_text",
    "tree_picture",
]
