"""A model and its data, each where need be told by the other."""

import inspect
from pathlib import Path

import torch
from torch import nn

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
            takes=_arguments(opened.module),
            generator=generator,
        )
    return opened, turned(fitted(found, opened.module), batch_dim)


def _arguments(module: nn.Module) -> frozenset[str]:
    """Names of the arguments of a model's forward."""
    try:
        parameters = inspect.signature(module.forward).parameters.values()
    except (ValueError, TypeError):  # some functions written in C have no signature
        return frozenset()
    loose = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    return frozenset(p.name for p in parameters if p.kind not in loose)
