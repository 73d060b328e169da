"""Checkpoints of any size and format: headers first, tensors one at a time, by ranges of bytes.

`open_checkpoint` reads what a checkpoint declares and none of its numbers; `Stored.read` reads rows
of one tensor, in any process. What cannot be read is left out with its reason, by name.
`read_checkpoint` and `load_checkpoint` read a state dict whole, by the same headers.
"""

from sigmascope.checkpoints.formats import open_checkpoint
from sigmascope.checkpoints.loading import load_checkpoint, read_checkpoint
from sigmascope.checkpoints.tensors import Adapter, Checkpoint, LeftOut, Stored

__all__ = [
    "Adapter",
    "Checkpoint",
    "LeftOut",
    "Stored",
    "load_checkpoint",
    "open_checkpoint",
    "read_checkpoint",
]
