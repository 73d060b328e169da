"""How profiles and diagnoses look: text, JSON, rows and pages."""

from sigmascope.diagnosis.presentation import profile
from sigmascope.diagnosis.presentation.diagnoses import Ranking, RemedyTrials
from sigmascope.diagnosis.presentation.profile_page import page
from sigmascope.diagnosis.presentation.schema import SCHEMA
from sigmascope.diagnosis.presentation.summaries import Coverage, coverage

__all__ = ["SCHEMA", "Coverage", "Ranking", "RemedyTrials", "coverage", "page", "profile"]
