"""Names in, models and data out."""

from sigmascope.checkpoints import load_checkpoint, read_checkpoint
from sigmascope.sources.batches import Batch
from sigmascope.sources.data import fitted, halves, open_data
from sigmascope.sources.datasets import DATASETS
from sigmascope.sources.models import Model, open_model
from sigmascope.sources.pairs import default_data, input_shape, open_both
from sigmascope.sources.programs import open_changed, open_program, source_of
from sigmascope.sources.samples import Data

__all__ = [
    "DATASETS",
    "Batch",
    "Data",
    "Model",
    "default_data",
    "fitted",
    "halves",
    "input_shape",
    "load_checkpoint",
    "open_both",
    "open_changed",
    "open_data",
    "open_model",
    "open_program",
    "read_checkpoint",
    "source_of",
]
