"""Checkpoints of any size and format: headers first, tensors one at a time, by ranges of bytes.

`open_checkpoint` reads what a checkpoint declares and none of its numbers; `Stored.read` reads rows
of one tensor, in any process. What cannot be read is left out with its reason, by name.
"""

from sigmascope.sources.stored.openings import open_checkpoint
from sigmascope.sources.stored.tensors import Adapter, Checkpoint, LeftOut, Stored

__all__ = ["Adapter", "Checkpoint", "LeftOut", "Stored", "open_checkpoint"]
