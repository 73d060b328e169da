"""Checkpoints in, numbers of every matrix out: planned from headers, one matrix at a time."""

from sigmascope.scanning.costs import effort_of, memory_of, rate, work_of
from sigmascope.scanning.door import plan, scan
from sigmascope.scanning.measuring import Measured
from sigmascope.scanning.rules import Rule, built_in, read_rules

__all__ = [
    "Measured",
    "Rule",
    "built_in",
    "effort_of",
    "memory_of",
    "plan",
    "rate",
    "read_rules",
    "scan",
    "work_of",
]
