"""A model and data that fit one another; what data a model gets where none was named."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from sigmascope.core.guard import Refusal
from sigmascope.sources.callables import arguments
from sigmascope.sources.data import Data, fitted, open_data, turned
from sigmascope.sources.models import Model, is_built_in, open_model

LENGTH = 32  # tokens in a random sequence; enough for every position to see others


def default_data(
    model: nn.Module, *, samples: int = 128, generator: torch.Generator | None = None
) -> Data:
    """Data that a model can be measured on when the user named none.

    Digits where the first layer takes 64 numbers or images of one channel; random tokens where it
    is an embedding or the configuration of a language model says so; Gaussian images where the
    configuration of a vision model says their size.

    Args:
        model: Looked at, not run.
        samples: How many.
        generator: Source of the samples; seed 0 when there is none.

    Raises:
        Refusal: If nothing says what the model takes; the message says what to pass.
    """
    source = generator if generator is not None else torch.Generator().manual_seed(0)
    config: Any = getattr(model, "config", None)
    image = _image_size(config)
    if image is not None:
        data = open_data("gaussian", samples=samples, shape=image, generator=generator)
        assert isinstance(data.inputs, Tensor)
        return replace(data, inputs={"pixel_values": data.inputs})
    if isinstance(getattr(config, "vocab_size", None), int):
        # random tokens as the arguments that a Hugging Face language model takes
        places = getattr(config, "max_position_embeddings", None)
        length = min(LENGTH, places) if isinstance(places, int) else LENGTH
        data = _tokens(config.vocab_size, length, samples, source)
        assert isinstance(data.inputs, Tensor)
        inputs = {"input_ids": data.inputs}
        if getattr(config, "is_encoder_decoder", False):
            decoder = torch.randint(config.vocab_size, (samples, length), generator=source)
            inputs["decoder_input_ids"] = decoder
        return replace(data, inputs=inputs)
    first = first_layer(model)
    if isinstance(first, nn.Embedding):
        # `LENGTH`, or less where a second embedding, taken to be of positions, has fewer rows
        sizes = [m.num_embeddings for m in model.modules() if isinstance(m, nn.Embedding)]
        length = min([LENGTH, *(size for size in sizes[1:] if size > 2)])  # 2: kinds of segments
        return _tokens(first.num_embeddings, length, samples, source)
    if input_shape(model) == (64,) or (isinstance(first, nn.Conv2d) and first.in_channels == 1):
        data = open_data("digits", samples=samples, generator=generator)
        assert isinstance(data.inputs, Tensor)
        flat = not isinstance(first, nn.Conv2d)
        return replace(data, inputs=data.inputs.flatten(1)) if flat else data
    what = "has no parameters" if first is None else f"begins with {first}"
    if isinstance(first, nn.Linear):
        hint = "`--data gaussian` for standard normal rows"
    elif isinstance(first, nn.Conv2d) and first.in_channels == 3:
        hint = "`--data cifar10`, or `--data 'gaussian?shape=3x224x224'` in the size it takes"
    else:
        hint = "`--data 'gaussian?shape=3x32x32'` in the shape it takes"
    raise Refusal(
        f"{type(model).__name__} {what}, which does not say what data it takes: pass `--data "
        f"FILE` (.npy, .npz, .pt, .safetensors), `--data file.py:loader`, or {hint}."
    )


def first_layer(model: nn.Module) -> nn.Module | None:
    """The first module, in the order of definition, that has parameters and no children."""
    for module in model.modules():
        if not list(module.children()) and list(module.parameters(recurse=False)):
            return module
    return None


def input_shape(model: nn.Module) -> tuple[int, ...] | None:
    """Shape of one sample as the first layer tells it; nothing where it does not."""
    image = _image_size(getattr(model, "config", None))
    first = first_layer(model)
    if image is not None:
        return image
    if isinstance(first, nn.Linear):
        return (first.in_features,)
    if isinstance(first, nn.BatchNorm1d):
        return (first.num_features,)
    return tuple(first.normalized_shape) if isinstance(first, nn.LayerNorm) else None


def _image_size(config: Any) -> tuple[int, int, int] | None:
    """`(channels, height, width)` of a vision model's configuration."""
    channels, size = getattr(config, "num_channels", None), getattr(config, "image_size", None)
    if not isinstance(channels, int) or getattr(config, "vocab_size", None) is not None:
        return None
    if isinstance(size, int):
        return (channels, size, size)
    if isinstance(size, list | tuple) and len(size) == 2:
        return (channels, int(size[0]), int(size[1]))
    return None


def _tokens(vocabulary: int, length: int, samples: int, source: torch.Generator) -> Data:
    ids = torch.randint(vocabulary, (samples, length), generator=source)
    name = f"random tokens, {samples} sequences of {length} from {vocabulary} words"
    return Data(ids, None, name, None)


# ------------------------------------------------------------------------------
# A model and its data, each where need be told by the other.


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
        named = "digits" if data is None else data  # an empty name is an unset variable
        found = open_data(named, samples=samples, folder=folder, generator=generator)
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
