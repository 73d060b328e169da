"""What a remedy is: a function from a model to a new one, and why it should help."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from itertools import islice
from keyword import iskeyword
from typing import Any, ClassVar, final

import torch
from torch import Tensor, nn
from torch.nn.modules.conv import _ConvNd

from sigmascope.core.guard import Refusal
from sigmascope.core.records import Kind
from sigmascope.models.layers import Call, called, layers, recording
from sigmascope.models.samples import Batch, prepared
from sigmascope.models.state import duplicate, still, unwrapped

# ------------------------------------------------------------------------------
# Modules in place of a layer that remedies add something to.


class Around(nn.Module):
    """A layer with something before or after it, in its place.

    Attributes:
        layer: The layer.
    """

    layer: nn.Module

    def __init__(self, layer: nn.Module) -> None:
        super().__init__()
        self.layer = layer

    def __getattr__(self, name: str) -> Any:
        """The layer's, for code that looks at its weight, its sizes or what else it has."""
        try:
            return super().__getattr__(name)
        except AttributeError:
            layer = self.__dict__.get("_modules", {}).get("layer")
            if layer is None or name.startswith("_"):
                raise
            return getattr(layer, name, None) if name == "bias" else getattr(layer, name)


def no_fast_path(model: nn.Module) -> tuple[tuple[str, str, Any], ...]:
    """Have torch's encoders call the layers that were put in place of theirs, in evaluation too.

    Their fast path reads `linear1.weight` and never calls `linear1`, so what was put around it
    would be left out wherever no gradient is taken, and a pair in its place has no weight to read.

    Returns:
        What was set: module, attribute, value.
    """

    def slow(module: nn.Module) -> bool:
        inner = (getattr(module, "linear1", None), getattr(module, "linear2", None))
        return any(isinstance(m, Around | nn.Sequential) for m in inner)

    done: list[tuple[str, str, Any]] = []
    for name, module in model.named_modules():
        if isinstance(module, nn.TransformerEncoderLayer) and slow(module):
            module.activation_relu_or_gelu = 0  # the fast path is for 1 (ReLU) and 2 (GELU)
            done.append((name, "activation_relu_or_gelu", 0))
        elif isinstance(module, nn.TransformerEncoder) and any(map(slow, module.layers)):
            module.use_nested_tensor = False  # which the fast path alone takes
            done.append((name, "use_nested_tensor", False))
    return tuple(done)


Batches = Batch | Iterable[Any]
MOST = 8  # batches that are taken of a loader


# ------------------------------------------------------------------------------
# What a remedy is, and what remedies share.


def in_python(place: str) -> str:
    """A place of a model as Python reaches it: `layers.3.act` is `model.layers[3].act`.

    Args:
        place: The name of a module, and of an attribute of it, if that is what is meant; empty for
            the model itself. Names that are no words of Python are given to `get_submodule`.
    """
    parts = place.split(".") if place else []
    if all(part.isdigit() or (part.isidentifier() and not iskeyword(part)) for part in parts):
        return "model" + "".join(f"[{p}]" if p.isdigit() else f".{p}" for p in parts)
    return f"model.get_submodule({place!r})"


def put_in_python(place: str, value: str) -> str:
    """A line of Python that puts something in a place of a model.

    Args:
        place: As `in_python` has it.
        value: An expression.
    """
    words = in_python(place)
    if words.startswith("model.get_submodule("):
        parent, _, last = place.rpartition(".")
        return f"setattr({in_python(parent)}, {last!r}, {value})"
    return f"{words} = {value}"


class Inapplicable(Refusal):
    """A remedy that does nothing for this model, and why."""


class Remedy(ABC):
    """A change of the initial network that is expected to cure some findings.

    Attributes:
        name: Of the remedy, as on the command line.
        cures: Kinds of findings that it is expected to cure, the surest first. This is the one
            place where it is said; what findings advise is derived from it.
        says: What it does, in one sentence.
        source: Author, year and number.
        unless: Where it does nothing, in words.
        needs: A quantity without which it does nothing; empty if there is none.
        rebuilds: Whether the new model has other modules than the old one, so that its weights do
            not fit the old code.
    """

    name: ClassVar[str]
    cures: ClassVar[tuple[Kind, ...]]
    says: ClassVar[str]
    source: ClassVar[str]
    unless: ClassVar[str] = ""
    needs: ClassVar[str] = ""
    rebuilds: ClassVar[bool] = False

    @abstractmethod
    def change(self, model: nn.Module, batches: list[Batch]) -> None:
        """Change a copy of the user's model in place.

        Raises:
            Inapplicable: If there is nothing to change.
        """

    @final
    def apply(self, model: nn.Module, batches: Batches) -> nn.Module:
        """A new model; the given one stays as it is, and so does torch's random state.

        Args:
            model: With its initial weights. Of one that is wrapped (`torch.compile`, data
                parallelism) the module inside is what is changed and returned.
            batches: One batch (a tensor, a tuple of arguments, a mapping of keyword arguments), or
                an iterable of batches or of (inputs, targets), as a DataLoader gives; its first 8
                are taken.

        Raises:
            Inapplicable: If the remedy does nothing for this model.
        """
        changed = duplicate(unwrapped(model))  # compiled layers would not say what they read
        # still: what the copy shares with it, random states and settings too
        with still(model), padding_kept(changed):
            self.change(changed, [prepared(changed, b) for b in taken(batches)])
        return changed


@contextmanager
def padding_kept(model: nn.Module) -> Iterator[None]:
    """Rows of embeddings that stand for padding are afterwards what they were.

    They are no weights: training never moves them, and a drawn one would let padding speak.
    """
    kinds = (nn.Embedding, nn.EmbeddingBag)
    found = [m for m in model.modules() if isinstance(m, kinds) and m.padding_idx is not None]
    rows = [m.weight.detach()[m.padding_idx].clone() for m in found]
    yield
    for module, row in zip(found, rows, strict=True):
        module.weight.data[module.padding_idx] = row


def sharing(model: nn.Module, module: nn.Module) -> str:
    """Name of another module that has the same weight, as a tied embedding; empty if none has.

    Args:
        model: Where to look.
        module: With a weight.
    """
    weight = dict(module.named_parameters(recurse=False)).get("weight")
    others = ((n, m) for n, m in model.named_modules() if m is not module)
    same = (n for n, m in others if any(p is weight for p in m.parameters(recurse=False)))
    return "" if weight is None else next(same, "")


def taken(batches: Batches) -> list[Batch]:
    """The first batches of a loader, without their targets; or the one that was given."""
    if isinstance(batches, Tensor | tuple | Mapping):
        return [batches]
    found: list[Batch] = []
    for item in islice(batches, MOST):
        inputs = item[0] if isinstance(item, tuple | list) and len(item) == 2 else item
        if not isinstance(inputs, Tensor | tuple | dict):
            raise Refusal(
                f"`batches` must give tensors, mappings or pairs (inputs, targets), got "
                f"{type(inputs).__name__}. Wrap the loader in one that does."
            )
        found.append(inputs)
    if not found:
        raise Refusal("`batches` must hold a batch, got an iterable that gives none.")
    return found


def calls(model: nn.Module, batch: Batch) -> tuple[Call, ...]:
    """Every call of a layer in one run, in order; the model is held still."""
    with still(model), torch.no_grad(), recording(layers(model)) as tape:
        called(model, batch)
    return tuple(tape.calls)


def plain_layers(made: Iterable[Call]) -> list[nn.Module]:
    """Linear and convolution layers with weights of their own, each once, in the order of calls."""
    kinds = (nn.Linear, _ConvNd)
    found = dict.fromkeys(c.module for c in made if isinstance(c.module, kinds))
    return [m for m in found if "weight" in dict(m.named_parameters())]


def hooked(
    model: nn.Module,
    batch: Batch,
    modules: Iterable[nn.Module],
    change: Callable[[nn.Module, tuple[Any, ...], Any], Tensor | None],
) -> None:
    """Run a model once with a hook on some modules, which may replace what they write.

    Parameters that the hooks change stay so.
    """
    handles = [m.register_forward_hook(change) for m in modules]
    try:
        with still(model, weights=False), torch.no_grad():
            called(model, batch)
    finally:
        for handle in handles:
            handle.remove()


@contextmanager
def frozen(model: nn.Module) -> Iterator[None]:
    """No parameter asks for a gradient inside; afterwards each does as before."""
    wanted = {p: p.requires_grad for p in model.parameters()}
    try:
        for p in wanted:
            p.requires_grad_(False)
        yield
    finally:
        for p, want in wanted.items():
            p.requires_grad_(want)
