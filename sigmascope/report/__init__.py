"""Results in; text, JSON, pages, pictures and tables out."""

from sigmascope.report import live
from sigmascope.report.explanations import Explanation, Explanations, every_name, explain
from sigmascope.report.forms import json_form
from sigmascope.report.pages import landscape_page, page, scan_page
from sigmascope.report.pictures import coordinates_picture, tree_picture
from sigmascope.report.results import Checks, Coverage, Ranking, Scenery, Trials, coverage
from sigmascope.report.scans import matrix_form
from sigmascope.report.schema import SCAN_SCHEMA, SCHEMA
from sigmascope.report.tables import table
from sigmascope.report.terminal import html, text, theorems_text

__all__ = [
    "SCAN_SCHEMA",
    "SCHEMA",
    "Checks",
    "Coverage",
    "Explanation",
    "Explanations",
    "Ranking",
    "Scenery",
    "Trials",
    "coordinates_picture",
    "coverage",
    "every_name",
    "explain",
    "html",
    "json_form",
    "landscape_page",
    "live",
    "matrix_form",
    "page",
    "scan_page",
    "table",
    "text",
    "theorems_text",
    "tree_picture",
]
