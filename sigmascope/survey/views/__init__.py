"""One file for each view: a subject in, readings out."""

from sigmascope.survey.views.bottleneck import counted, middle_half
from sigmascope.survey.views.task import constant_loss

__all__ = ["constant_loss", "counted", "middle_half"]
