"""One file for each view: a subject in, readings out."""

from sigmascope.survey.views.bottleneck import counted, middle_half

__all__ = ["counted", "middle_half"]
