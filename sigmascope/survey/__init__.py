"""Models in, profiles out."""

from sigmascope.survey import bottleneck, landscape, task, views
from sigmascope.survey.comparing import Change, Comparison, compare
from sigmascope.survey.coverage import tried
from sigmascope.survey.profiling import Progress, named, profile

__all__ = [
    "Change",
    "Comparison",
    "Progress",
    "bottleneck",
    "compare",
    "landscape",
    "named",
    "profile",
    "task",
    "tried",
    "views",
]
