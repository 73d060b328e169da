"""Training as the user means to, tried on copies for some dozens of steps."""

from sigmascope.diagnosis.training.evidence import training_items
from sigmascope.diagnosis.training.runs import TrainingSamples

__all__ = ["TrainingSamples", "training_items"]
