"""The door to models."""

import inspect
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal
from urllib.parse import parse_qsl

import torch
from torch import nn

from sigmascope.checkpoints.loading import KINDS, load_checkpoint
from sigmascope.core import guard
from sigmascope.core.guard import Refusal, door, listed, nearest, told
from sigmascope.core.records import Brief
from sigmascope.models import networks
from sigmascope.sources.callables import (
    call,
    candidates,
    is_callable_spec,
    lent,
    named,
    require_program,
)
from sigmascope.sources.data import Data
from sigmascope.sources.huggingface import open_folder
from sigmascope.sources.samples import DEEPEST, DIGITS, WIDEST

Origin = Literal["built-in", "python", "hugging face"]
MODULE = 10_000  # bytes that a layer takes in Python, however small
AS_MADE = "as the code made them"


@dataclass(frozen=True, slots=True, repr=False)
class Model(Brief):
    """A model to measure.

    Attributes:
        module: In the mode (train or eval) its source gave it.
        name: The spec it was opened by.
        origin: Which kind of source that was.
        weights: Where its weights are from, in words.
    """

    module: nn.Module
    name: str
    origin: Origin
    weights: str

    @property
    def trained(self) -> bool:
        """Whether its weights were loaded, from a checkpoint or with a folder."""
        return not self.weights.startswith(("random", AS_MADE))


def is_built_in(spec: str) -> bool:
    """Whether `spec` speaks of a reference network, rightly or not: `mlp`, `mlp?depth=3`."""
    name, mark, _ = spec.partition("?")
    known = name in [network.__name__ for network in networks.NETWORKS]
    return (known or (bool(mark) and name.isidentifier())) and not Path(spec).exists()


@door
def open_model(
    spec: str,
    *,
    checkpoint: str | Path | None = None,
    data: Data | None = None,
    generator: torch.Generator | None = None,
) -> Model:
    """A model by name, from Python code, or from a folder.

    - `mlp?depth=32&width=128&norm=none`, `vgg?...`, `vgg19?...`, `resnet?...`, `resnet50?...`: see
      `networks.build`. The shape of the inputs and the number of outputs (10 where there are no
      targets) are those of `data`.
    - `file.py:factory`, `package.module:factory`: a module, or whatever returns one when called
      without arguments.
    - a folder with a Hugging Face `config.json`.

    Args:
        spec: One of the above.
        checkpoint: A state dict for it, `.pt` or `.safetensors`; every name must match.
        data: Needed for the first kind only.
        generator: Source of random weights; torch's global one when there is none. Its state is
            as before afterwards.

    Raises:
        Refusal: If the spec leads nowhere, or to something that is not a model.
    """
    path = Path(spec.removesuffix(":")).expanduser()
    if is_built_in(spec):
        model = Model(_built_in(spec, data, generator), spec, "built-in", "random")
    elif is_callable_spec(spec):
        with lent(generator), named(spec) as found:
            module = found
            if not isinstance(found, nn.Module):
                if not callable(found):
                    raise Refusal(
                        f"`{spec}` must be a torch.nn.Module or a function that returns one, got a "
                        f"value of type {type(found).__name__}."
                    )
                module = call(found, spec)
        if not isinstance(module, nn.Module):
            raise Refusal(f"`{spec}` must return a torch.nn.Module, got {_description(module)}")
        model = Model(module, spec, "python", AS_MADE)
    elif spec and path.is_dir():  # an empty spec would be the working folder
        module, weights = open_folder(path, generator=generator)
        model = Model(module, spec, "hugging face", weights)
    else:
        spec = spec.removesuffix(":")  # `file.py:` forgot the name
        require_program(spec)
        if path.suffix == ".py":
            guard.require_file(path, (".py",))
            names = candidates(path)
            has = f" (it has {listed(names)})" if names else ""
            raise Refusal(
                f"`{spec}` must be followed by the name of a factory in it{has}: `{spec}:NAME`."
            )
        if path.suffix in KINDS:
            raise Refusal(
                f"`{spec}` holds weights, not a model: name the model and pass `--checkpoint "
                f"{spec}`."
            )
        known = [network.__name__ for network in networks.NETWORKS]
        raise Refusal(
            f"There is no model `{spec}`: write `file.py:factory`, `package.module:factory`, a "
            "local Hugging Face folder (nothing is fetched), or a built-in network "
            f"({', '.join(known)}).{nearest(spec, known)}"
        )
    if checkpoint is None:
        return model
    return Model(model.module, spec, model.origin, load_checkpoint(model.module, checkpoint))


def _built_in(spec: str, data: Data | None, generator: torch.Generator | None) -> nn.Module:
    shape = None if data is None else data.shape
    if data is None or shape is None:
        raise Refusal(
            f"`{spec}` takes the shape of its inputs from the data, which must be one tensor: pass "
            "`--data digits`, `--data 'gaussian?shape=64'` or a file."
        )
    # refuse what would eat the memory of the machine before torch says that there is none
    outputs = data.outputs or 1
    options = dict(parse_qsl(spec.partition("?")[2]))
    sizes = [options.get(key, "1") for key in ("depth", "width")]
    smaller = "make `depth` or `width` smaller"
    if any(len(size) > DIGITS for size in sizes):
        raise Refusal(f"`{spec[:80]}` is of no size that could be built: {smaller}.")
    depth, width = (int(size) if size.isdecimal() else 1 for size in sizes)
    needed = max(depth, 1) * max(4 * width * width, MODULE)
    guard.require_room(needed, f"`{spec}`", gives="for its weights", do=smaller)
    if outputs > WIDEST:
        raise Refusal(
            f"A network that is built here has at most {WIDEST} outputs, got classes up to "
            f"{outputs - 1}: number the classes from 0 on."
        )
    if depth > DEEPEST:
        raise Refusal(
            f"`{spec}` would have more than the {DEEPEST} layers that are built here: {smaller}."
        )
    try:
        return networks.build(spec, inputs=shape, outputs=data.outputs or 10, generator=generator)
    except ValueError as error:
        raise Refusal(str(error)) from error
    except (RuntimeError, MemoryError) as error:  # torch says so when it finds no memory
        raise Refusal(f"`{spec}` cannot be built ({told(error)}): make it smaller.") from error


def _description(value: object) -> str:
    if value is None:
        return "None: does it end in `return model`?"
    if inspect.isclass(value):
        return f"the class {value.__name__}: call it."
    if inspect.iscoroutine(value):
        value.close()  # else Python warns that nobody awaited it
        return "a coroutine: write `def` without `async`."
    if isinstance(value, Mapping):
        return f"a value of type {type(value).__name__}: weights go with `--checkpoint FILE`."
    several = isinstance(value, tuple | list) and any(isinstance(v, nn.Module) for v in value)
    return f"a value of type {type(value).__name__}{': return the model alone' * several}."
