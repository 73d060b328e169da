"""Training as the user means to, tried on copies for some dozens of steps."""

from sigmascope.diagnosis.training.evidence import training_items
from sigmascope.diagnosis.training.runs import Data

__all__ = ["Data", "training_items"]
