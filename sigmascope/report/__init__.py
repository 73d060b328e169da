"""A toolkit to show results with: text, JSON, tables, pages. It knows no product.

What a result looks like is said by the product that it belongs to (`products.PRESENTATIONS`).
"""

from sigmascope.report.explanations import Explanation, Explanations, every_name, explain
from sigmascope.report.figures import plot
from sigmascope.report.findings import folded, headline
from sigmascope.report.results import html, json_form, table, text
from sigmascope.report.several import Findings, Results

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
    "plot",
    "table",
    "text",
]
