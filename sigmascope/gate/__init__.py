"""What comes in from outside and what goes out: refusals, text, files, memory, time, chance.

Every room stands on this one. Text from outside is shown through `printable`, files are written
through `replacing`, `write_text` and `Rows`, and what a file declares is weighed by `require_room`.
"""

from sigmascope.gate.budgets import Budget, OverBudget, seconds_of, time_words
from sigmascope.gate.drawing import random_states
from sigmascope.gate.memory import (
    allowed,
    memory,
    require_dense,
    require_room,
    size_words,
    trim,
)
from sigmascope.gate.refusals import Refusal, printable, printable_lines
from sigmascope.gate.rows import Rows
from sigmascope.gate.writing import Closing, Mark, replacing, require_target, write_text

__all__ = [
    "Budget",
    "Closing",
    "Mark",
    "OverBudget",
    "Refusal",
    "Rows",
    "allowed",
    "memory",
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
