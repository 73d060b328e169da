"""Two watched runs compared: where they part, and which alarms each had."""

from sigmascope.watching.comparing.alarm_spans import AlarmSpan, alarm_spans
from sigmascope.watching.comparing.partings import Parted, Parting, Setting, part

__all__ = ["AlarmSpan", "Parted", "Parting", "Setting", "alarm_spans", "part"]
