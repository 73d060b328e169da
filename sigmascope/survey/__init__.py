"""Models in, profiles out."""

from sigmascope.core.guard import Progress
from sigmascope.core.records import Change, changes
from sigmascope.survey import task, views
from sigmascope.survey.profiling import named, profile, tried

__all__ = ["Change", "Progress", "changes", "named", "profile", "task", "tried", "views"]
