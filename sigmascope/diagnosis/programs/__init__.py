"""What a user trains: model, data, loss, optimizer and how long."""

from sigmascope.diagnosis.programs.losses import fitting_loss, loss_of
from sigmascope.diagnosis.programs.optimizers import Recipe, family_of, recipe_of
from sigmascope.diagnosis.programs.program import Program, program_of

__all__ = ["Program", "Recipe", "family_of", "fitting_loss", "loss_of", "program_of", "recipe_of"]
