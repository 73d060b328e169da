"""The loss at other weights than the model's own."""

from collections.abc import Sequence

import torch
from jaxtyping import Float64
from torch import Tensor

from sigmascope.core.guard import Refusal
from sigmascope.models.curvature.hessian import Direction, moved
from sigmascope.models.layers import called
from sigmascope.models.samples import as_tensor, scalar_loss
from sigmascope.models.state import still
from sigmascope.models.subject import Subject


def losses_at(
    subject: Subject, directions: Sequence[Direction], at: Float64[Tensor, "points k"]
) -> Float64[Tensor, " points"]:
    """The loss at `w + Σ a_j direction_j`, for every row of coordinates `a`.

    Args:
        subject: With targets and a loss.
        directions: A displacement for some parameters or buffers, by name, for each coordinate.
        at: Coordinates, one row for each point.

    Returns:
        In the unit of the loss; infinite or nan where the model overflows.

    Raises:
        Refusal: If there are no targets or no loss, or a direction does not fit the model.

    Cost: a forward pass for each point.
    """
    if subject.loss is None or subject.targets is None:
        raise Refusal("Losses depend on targets and a loss, got none. Pass `targets=` and `loss=`.")
    owned = {**dict(subject.model.named_parameters()), **dict(subject.model.named_buffers())}
    for name, step in ((n, s) for d in directions for n, s in d.items()):
        if name not in owned or owned[name].shape != step.shape:
            there = tuple(owned[name].shape) if name in owned else "nothing of that name"
            raise Refusal(
                f"A direction must have the shapes of the model, got {tuple(step.shape)} for "
                f"`{name}`, where there is {there}."
            )
    _ = subject.output  # computed once, and refused if the model or the loss misread the batch
    names = dict.fromkeys(name for d in directions for name in d)
    found = []
    for row in at.tolist():
        parts = {
            name: sum(
                (a * d[name] for a, d in zip(row, directions, strict=True) if name in d),
                torch.zeros(()),
            )
            for name in names
        }
        with still(subject.model), torch.no_grad(), moved(subject.model, parts):
            output = as_tensor(called(subject.model, subject.batch))[0]
            found.append(float(scalar_loss(subject.loss, output, subject.targets)))
    return torch.tensor(found, dtype=torch.float64)
