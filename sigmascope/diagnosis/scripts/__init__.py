"""Training scripts as they are: what they do in a step, what is wrong with it, what cures it."""

from sigmascope.diagnosis.scripts.diagnosing import Attempt, ScriptDiagnosis, diagnose_script
from sigmascope.diagnosis.scripts.observing import Observation, observe
from sigmascope.diagnosis.scripts.running import Script
from sigmascope.diagnosis.scripts.seen import ScriptRun

__all__ = [
    "Attempt",
    "Observation",
    "Script",
    "ScriptDiagnosis",
    "ScriptRun",
    "diagnose_script",
    "observe",
]
