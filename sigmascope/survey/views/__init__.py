"""One file for each view: a subject in, readings out."""

from sigmascope.survey.views import features, gradients, representations, setup, task, weights

__all__ = ["features", "gradients", "representations", "setup", "task", "weights"]
