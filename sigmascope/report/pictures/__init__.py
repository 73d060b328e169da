"""Results as pictures."""

from sigmascope.report.pictures.coordinates import coordinates_picture
from sigmascope.report.pictures.trees import tree_picture

__all__ = ["coordinates_picture", "tree_picture"]
