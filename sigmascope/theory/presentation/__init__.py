"""How what four papers prove looks: text, JSON, rows, pictures and pages."""

from sigmascope.theory.presentation import bottlenecks, comparisons
from sigmascope.theory.presentation.landscape_html import landscape_page
from sigmascope.theory.presentation.landscapes import Scenery
from sigmascope.theory.presentation.pictures import coordinates_picture, tree_picture
from sigmascope.theory.presentation.theorems import Checks, theorems_text

__all__ = [
    "Checks",
    "Scenery",
    "bottlenecks",
    "comparisons",
    "coordinates_picture",
    "landscape_page",
    "theorems_text",
    "tree_picture",
]
