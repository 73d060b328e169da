"""Cures of whole programs, tried on copies."""

from sigmascope.diagnosis.cures.changes import CHANGES, require_recipe
from sigmascope.diagnosis.cures.patches import agrees, diff_of, patched
from sigmascope.diagnosis.cures.trials import Cure, Cures, cured

__all__ = ["CHANGES", "Cure", "Cures", "agrees", "cured", "diff_of", "patched", "require_recipe"]
