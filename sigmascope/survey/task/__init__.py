"""What outputs, targets and a loss ask of one another, from first principles."""

from sigmascope.survey.task.fits import Fit, fit_of, least_losses
from sigmascope.survey.task.infima import (
    UNBOUNDED,
    constant_loss,
    free_starts,
    least_loss,
    room_of,
)
from sigmascope.survey.task.labels import Kind, Labels, labels_of
from sigmascope.survey.task.losses import Coupling, Needs, needs_of

__all__ = [
    "UNBOUNDED",
    "Coupling",
    "Fit",
    "Kind",
    "Labels",
    "Needs",
    "constant_loss",
    "fit_of",
    "free_starts",
    "labels_of",
    "least_loss",
    "least_losses",
    "needs_of",
    "room_of",
]
