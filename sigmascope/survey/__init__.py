"""Models in, profiles out."""

from sigmascope.survey import task, views
from sigmascope.survey.changes import Change, changes
from sigmascope.survey.profiling import Progress, named, profile, tried

__all__ = ["Change", "Progress", "changes", "named", "profile", "task", "tried", "views"]
