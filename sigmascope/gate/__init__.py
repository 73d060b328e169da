"""What comes in from outside and what goes out: refusals, text, files, memory, time, chance.

Every room stands on this one. Text from outside is shown through `printable`, files are written
through `replacing`, `write_text` and `RowFile`, and what a file declares is weighed by
`require_room`.
"""

from sigmascope.gate.files import Closing, Mark, RowFile, replacing, require_target, write_text
from sigmascope.gate.limits import (
    Budget,
    OverBudget,
    allowed,
    memory,
    require_dense,
    require_room,
    seconds_of,
    size_words,
    time_words,
    trim,
)
from sigmascope.gate.randomness import PACKAGE, DrawnNumbers, on_cpu, random_states
from sigmascope.gate.refusals import Refusal, printable, printable_lines

__all__ = [
    "PACKAGE",
    "Budget",
    "Closing",
    "DrawnNumbers",
    "Mark",
    "OverBudget",
    "Refusal",
    "RowFile",
    "allowed",
    "memory",
    "on_cpu",
    "printable",
    "printable_lines",
    "random_states",
    "replacing",
    "require_dense",
    "require_room",
    "require_target",
    "seconds_of",
    "size_words",
    "time_words",
    "trim",
    "write_text",
]
