"""A model and its data, each where need be told by the other."""

from pathlib import Path

import torch

from sigmascope.sources.callables import arguments
from sigmascope.sources.data import Data, fitted, open_data, turned
from sigmascope.sources.defaults import default_data, input_shape
from sigmascope.sources.models import Model, is_built_in, open_model


def open_both(
    model: str,
    *,
    data: str | None = None,
    checkpoint: str | Path | None = None,
    samples: int = 128,
    folder: str | Path | None = None,
    batch_dim: int = 0,
    generator: torch.Generator | None = None,
) -> tuple[Model, Data]:
    """Open a model and the data to measure it on.

    A built-in network takes its shape from the data, `digits` where none is named; any other model
    gives `gaussian` its shape, and decides by its first layer where no data is named. Floating
    inputs are brought to the precision of the model.

    Args:
        model: As for `open_model`.
        data: As for `open_data`.
        checkpoint: As for `open_model`.
        samples: As for `open_data`.
        folder: As for `open_data`.
        batch_dim: Where the model wants its samples; in the data they come first.
        generator: Source of weights and of samples; without one, weights are drawn from torch's
            global generator and samples with seed 0.

    Raises:
        Refusal: As the two doors do.
    """
    if is_built_in(model):
        found = open_data(data or "digits", samples=samples, folder=folder, generator=generator)
        opened = open_model(model, checkpoint=checkpoint, data=found, generator=generator)
        return opened, turned(found, batch_dim)
    opened = open_model(model, checkpoint=checkpoint, generator=generator)
    if data is None:
        found = default_data(opened.module, samples=samples, generator=generator)
    else:
        shape = input_shape(opened.module) if data == "gaussian" else None
        found = open_data(
            data,
            samples=samples,
            folder=folder,
            shape=shape,
            takes={p.name for p in arguments(opened.module.forward)},
            generator=generator,
        )
    return opened, turned(fitted(found, opened.module), batch_dim)
