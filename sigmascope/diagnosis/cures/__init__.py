"""Cures of whole programs, tried on copies."""

from sigmascope.diagnosis.cures.trials import Cure, Cures, cured

__all__ = ["Cure", "Cures", "cured"]
