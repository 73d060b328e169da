"""Watching a model while it trains: what is read, on what budget, and when it raises an alarm."""

from sigmascope.watching.alarm_spans import AlarmSpan, alarm_spans
from sigmascope.watching.looks import LOSS, OPTIMISER, OVER, OWN, WHOLE, Look, Sink
from sigmascope.watching.partings import Parted, Parting, Setting, part
from sigmascope.watching.watch import Watch

watch = Watch  # as it is called: `ss.watch(model, optimizer)`

__all__ = [
    "LOSS",
    "OPTIMISER",
    "OVER",
    "OWN",
    "WHOLE",
    "AlarmSpan",
    "Look",
    "Parted",
    "Parting",
    "Setting",
    "Sink",
    "Watch",
    "alarm_spans",
    "part",
    "watch",
]
