"""Training scripts as they are: what they do in a step, what is wrong with it, what cures it."""

from sigmascope.scripts.diagnosing import Attempt, ScriptDiagnosis, diagnose_script
from sigmascope.scripts.observing import Observation, observe
from sigmascope.scripts.running import Script
from sigmascope.scripts.seen import ScriptRun

__all__ = [
    "Attempt",
    "Observation",
    "Script",
    "ScriptDiagnosis",
    "ScriptRun",
    "diagnose_script",
    "observe",
]
