"""Another last operation, or another number of outputs."""

from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import partial
from typing import ClassVar, final

import torch
from torch import Tensor, nn

from sigmascope.core import quantities as q
from sigmascope.core.records import Kind
from sigmascope.diagnosis.remedies.base import Around, Inapplicable, Remedy, calls
from sigmascope.diagnosis.rules.data import UNSCALED_TARGETS
from sigmascope.diagnosis.rules.outputs import (
    CONSTANT_OUTPUT,
    DOUBLE_SOFTMAX,
    OUT_OF_REACH,
    RAW_OUTPUT,
    SHARED_CLASSES,
    SPREAD_TARGETS,
    UNSUITED_CLOSING,
)
from sigmascope.diagnosis.rules.representations import LOUD_OUTPUT
from sigmascope.models.layers import called, module_name
from sigmascope.models.samples import Batch, as_tensor
from sigmascope.models.state import still
from sigmascope.models.structure import tail

GOODFELLOW = "Goodfellow et al. 2016, Sec. 6.2.2"
LEAST = 1e-6  # spread of targets that are scaled


def closing_site(model: nn.Module, batch: Batch) -> str:
    """Name of the module without weights that makes the output; empty where none does.

    Args:
        model: Left as it is.
        batch: What it is run on.
    """
    wrote: list[tuple[str, Tensor]] = []
    with ExitStack() as hooks:
        for name, m in model.named_modules():
            # neither parts nor weights, and more than moving numbers
            bare = not [*m.children()] and next(m.parameters(), None) is None
            if name and bare and not isinstance(m, nn.Dropout | nn.Flatten | nn.Identity):
                hooks.callback(m.register_forward_hook(partial(_note, wrote, name)).remove)
        with still(model), torch.no_grad():
            output = as_tensor(called(model, batch))[0]
    name, made = wrote[-1] if wrote else ("", output[:0])
    same = made.numel() == output.numel() and torch.equal(made.flatten(), output.flatten())
    return name if same else ""


def _note(
    wrote: list[tuple[str, Tensor]], name: str, _: nn.Module, _args: object, out: object
) -> None:
    if isinstance(out, Tensor):
        wrote.append((name, out))


class Closed(Around):
    """The last layer and what closes the model, in place of the layer."""

    def __init__(self, layer: nn.Module, closing: nn.Module) -> None:
        super().__init__(layer)
        self.closing = closing

    def forward(self, *inputs: object, **named: object) -> Tensor:
        """What the layer writes, closed."""
        return self.closing(self.layer(*inputs, **named))


class EndIn(Remedy):
    """Another last operation: a module in the place of the one that closes the model, or behind it.

    Attributes:
        closing: What the model is to end in; None for the last layer as it is.
    """

    closing: ClassVar[type[nn.Module] | None] = None
    source: ClassVar[str] = GOODFELLOW
    rebuilds: ClassVar[bool] = True

    def change(self, model: nn.Module, batches: list[Batch]) -> None:
        ending = tail(model, batches[0])
        site = closing_site(model, batches[0])
        kind = type(self).closing
        wanted = "" if kind is None else kind.__name__.lower()
        if ending.closing == wanted:
            raise Inapplicable(f"The model ends in {ending.closing or 'its last layer'} already.")
        if ending.closing and not site:
            raise Inapplicable(
                f"The last operation, {ending.closing}, is written in `forward`, where no remedy "
                f"reaches it: write {wanted or 'nothing'} there in its place."
            )
        output = ending.output
        if kind is nn.Softmax and (output.ndim < 2 or output.shape[-1] < 2):
            raise Inapplicable("A softmax needs two outputs or more, got one: it would be 1.")
        fresh = nn.Identity() if kind is None else kind(-1) if kind is nn.Softmax else kind()
        if site:
            # the module that closes the model must do nothing else in it
            batch = batches[0]
            wrote: list[tuple[str, Tensor]] = []
            module = model.get_submodule(site)
            handle = module.register_forward_hook(partial(_note, wrote, site))
            try:
                with still(model), torch.no_grad():
                    called(model, batch)
            finally:
                handle.remove()
            if len(wrote) > 1:
                raise Inapplicable(
                    f"`{site}` makes the output and is called {len(wrote)} times in a pass: in "
                    "its place another would change the inside of the model too. Give the end a "
                    "module of its own."
                )
            _put(model, site, fresh)
        elif isinstance(model, nn.Sequential):
            model.append(fresh)
        else:
            last = calls(model, batches[0])[-1]
            name = module_name(last.site)
            if not name or last.output.shape != ending.output.shape:
                raise Inapplicable(
                    "The layer that writes the output must be a part of the model that can be "
                    f"replaced, got {type(last.module).__name__} at {last.site or 'the top'}. Add "
                    "the operation at the end of `forward`."
                )
            _put(model, name, Closed(last.module, fresh))


def _put(model: nn.Module, site: str, fresh: nn.Module) -> None:
    """Set a module in the place of another; containers by key, others by attribute."""
    parent, _, name = site.rpartition(".")
    setattr(model.get_submodule(parent), name, fresh)


@final
@dataclass(frozen=True, slots=True)
class EndInLinear(EndIn):
    """Leave the last operation out."""

    name: ClassVar[str] = "end-in-linear"
    cures: ClassVar[tuple[Kind, ...]] = (
        DOUBLE_SOFTMAX,
        OUT_OF_REACH,
        CONSTANT_OUTPUT,
        UNSUITED_CLOSING,
        SPREAD_TARGETS,
    )
    says: ClassVar[str] = "Leave out the last operation: end in the linear layer."
    unless: ClassVar[str] = "the model does already, or what it ends in is written in `forward`"


@final
@dataclass(frozen=True, slots=True)
class EndInSigmoid(EndIn):
    """End in a sigmoid for each output."""

    name: ClassVar[str] = "end-in-sigmoid"
    cures: ClassVar[tuple[Kind, ...]] = (
        CONSTANT_OUTPUT,
        RAW_OUTPUT,
        UNSUITED_CLOSING,
        SHARED_CLASSES,
    )
    says: ClassVar[str] = "End in a sigmoid."
    unless: ClassVar[str] = "the model does already, or what it ends in is written in `forward`"
    closing: ClassVar[type[nn.Module] | None] = nn.Sigmoid


@final
@dataclass(frozen=True, slots=True)
class EndInSoftmax(EndIn):
    """End in a softmax over the outputs of a row."""

    name: ClassVar[str] = "end-in-softmax"
    cures: ClassVar[tuple[Kind, ...]] = (RAW_OUTPUT, UNSUITED_CLOSING)
    says: ClassVar[str] = "End in a softmax over the classes."
    unless: ClassVar[str] = (
        "the model does already, or what it ends in is written in `forward`; there is one output"
    )
    closing: ClassVar[type[nn.Module] | None] = nn.Softmax


class Unscaled(Around):
    """A layer whose outputs are brought to the scale of the targets by two constants."""

    def __init__(self, layer: nn.Module, mean: Tensor, spread: Tensor) -> None:
        super().__init__(layer)
        self.register_buffer("mean", mean)
        self.register_buffer("spread", spread)

    def forward(self, *args: object, **named: object) -> Tensor:
        """`layer(x) * spread + mean`."""
        made = self.layer(*args, **named)
        return made * self.get_buffer("spread") + self.get_buffer("mean")


@final
@dataclass(frozen=True, slots=True)
class StandardiseTargets(Remedy):
    """Learn targets less their mean, over their spread, and undo that on the outputs.

    Attributes:
        targets: Values, from which mean and spread are taken.
    """

    name: ClassVar[str] = "standardise-targets"
    cures: ClassVar[tuple[Kind, ...]] = (UNSCALED_TARGETS, LOUD_OUTPUT)
    says: ClassVar[str] = "Learn targets less their mean, over their spread."
    unless: ClassVar[str] = "targets are classes, or of another shape; no layer ends the model"
    source: ClassVar[str] = "LeCun et al. 1998, Sec. 4.5"
    needs: ClassVar[str] = q.TARGET_SIZE
    rebuilds: ClassVar[bool] = True

    targets: Tensor | None = field(default=None, repr=False)

    def change(self, model: nn.Module, batches: list[Batch]) -> None:
        last = calls(model, batches[0])[-1]
        ending, name = tail(model, batches[0]), module_name(last.site)
        y = self.targets
        if y is None or not y.is_floating_point() or y.shape[1:] != ending.output.shape[1:]:
            raise Inapplicable("Scaling outputs needs targets that are values of their shape.")
        if ending.closing or not name or last.output.shape != ending.output.shape:
            raise Inapplicable(
                "Scaling outputs needs a model that ends in a layer of its own, got one that ends "
                f"in {ending.closing or type(last.module).__name__}. Scale the targets instead."
            )
        mean = y.detach().to(ending.output).mean(0)
        spread = (y.detach().to(ending.output) - mean).square().mean(0).sqrt().clamp(min=LEAST)
        _put(model, name, Unscaled(last.module, mean, spread))
