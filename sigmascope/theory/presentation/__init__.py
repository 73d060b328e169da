"""How what four papers prove looks: text, JSON, rows, pictures and pages."""

from sigmascope.theory.presentation import figures as figures
from sigmascope.theory.presentation.landscape_html import landscape_page
from sigmascope.theory.presentation.pictures import coordinates_picture, tree_picture
from sigmascope.theory.presentation.results import Checks, Scenery, theorems_text

__all__ = [
    "Checks",
    "Scenery",
    "coordinates_picture",
    "landscape_page",
    "theorems_text",
    "tree_picture",
]
