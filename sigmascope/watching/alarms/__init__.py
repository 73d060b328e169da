"""Alarms."""

from sigmascope.watching.alarms.alarms import Alarms

__all__ = ["Alarms"]
