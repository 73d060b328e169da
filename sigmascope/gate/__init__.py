"""What comes in from outside and what goes out: refusals, text, files, memory.

Every room stands on this one. Text from outside is shown through `printable`, files are written
through `replacing`, `write_text` and `Rows`, and what a file declares is weighed by `require_room`.
"""

from sigmascope.gate.budgets import memory, require_room, size_of
from sigmascope.gate.closing import Closing
from sigmascope.gate.refusals import NoFolder, Refusal
from sigmascope.gate.rows import Rows
from sigmascope.gate.tensors import require_dense
from sigmascope.gate.text import printable, printable_lines
from sigmascope.gate.writing import Mark, replacing, require_target, write_text

__all__ = [
    "Closing",
    "Mark",
    "NoFolder",
    "Refusal",
    "Rows",
    "memory",
    "printable",
    "printable_lines",
    "replacing",
    "require_dense",
    "require_room",
    "require_target",
    "size_of",
    "write_text",
]
