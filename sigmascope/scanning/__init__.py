"""Checkpoints in, numbers of every matrix out: planned from headers, one matrix at a time."""

from sigmascope.scanning.matrices import NameRule, built_in, read_rules
from sigmascope.scanning.measuring import Measured
from sigmascope.scanning.planning import effort_of, memory_of, rate, work_of
from sigmascope.scanning.running import plan, scan

__all__ = [
    "Measured",
    "NameRule",
    "built_in",
    "effort_of",
    "memory_of",
    "plan",
    "rate",
    "read_rules",
    "scan",
    "work_of",
]
