"""A toolkit to show results with: text, JSON, tables, pages. It knows no product.

What a result looks like is said by the product that it belongs to (`products.PRESENTATIONS`).
"""

from sigmascope.report.explanations import Explanation, Explanations, every_name, explain
from sigmascope.report.findings import folded, headline
from sigmascope.report.forms import json_form
from sigmascope.report.screens import html, text
from sigmascope.report.several import Findings, Results
from sigmascope.report.tables import table

__all__ = [
    "Explanation",
    "Explanations",
    "Findings",
    "Results",
    "every_name",
    "explain",
    "folded",
    "headline",
    "html",
    "json_form",
    "table",
    "text",
]
