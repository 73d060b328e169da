"""What a user trains: model, data, loss, optimiser and how long."""

from sigmascope.diagnosis.programs.fitting import fitting_loss
from sigmascope.diagnosis.programs.losses import loss_of
from sigmascope.diagnosis.programs.optimisers import Recipe, recipe_of
from sigmascope.diagnosis.programs.program import Program, program_of

__all__ = ["Program", "Recipe", "fitting_loss", "loss_of", "program_of", "recipe_of"]
