"""Models in, profiles out."""

from sigmascope.survey import task, views
from sigmascope.survey.changes import Change, changes
from sigmascope.survey.coverage import tried
from sigmascope.survey.profiling import Progress, named, profile

__all__ = ["Change", "Progress", "changes", "named", "profile", "task", "tried", "views"]
