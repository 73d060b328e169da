"""How profiles and diagnoses look: text, JSON, rows and pages."""

from sigmascope.diagnosis.presentation import figures as figures
from sigmascope.diagnosis.presentation.profile_page import page
from sigmascope.diagnosis.presentation.results import (
    SCHEMA,
    Coverage,
    Ranking,
    coverage,
)

__all__ = ["SCHEMA", "Coverage", "Ranking", "coverage", "page"]
