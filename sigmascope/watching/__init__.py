"""Watching a model while it trains: what is read, on what budget, and when it raises an alarm."""

from sigmascope.watching import alarms
from sigmascope.watching.alarms import ALARMS
from sigmascope.watching.comparing import (
    AlarmSpan,
    Parted,
    Parting,
    Setting,
    alarm_spans,
    part,
)
from sigmascope.watching.sinks import LOSS, MEANS, OPTIMIZER, OVER, OWN, WHOLE, Look, Sink
from sigmascope.watching.watch import Watch

watch = Watch  # as it is called: `ss.watch(model, optimizer)`

__all__ = [
    "ALARMS",
    "LOSS",
    "MEANS",
    "OPTIMIZER",
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
    "alarms",
    "part",
    "watch",
]
