"""What outputs, targets and a loss ask of one another, from first principles."""

from sigmascope.survey.task.fits import TaskFit, fit_of, is_endless, least_losses
from sigmascope.survey.task.loss_recognition import (
    UNBOUNDED,
    Coupling,
    Kind,
    Labels,
    Needs,
    constant_loss,
    free_starts,
    labels_of,
    least_loss,
    needs_of,
    room_of,
)

__all__ = [
    "UNBOUNDED",
    "Coupling",
    "Kind",
    "Labels",
    "Needs",
    "TaskFit",
    "constant_loss",
    "fit_of",
    "free_starts",
    "is_endless",
    "labels_of",
    "least_loss",
    "least_losses",
    "needs_of",
    "room_of",
]
