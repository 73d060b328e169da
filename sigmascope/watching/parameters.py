"""Which parameters are trained, by whom, and where they are in the model."""

import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

from torch import Tensor, nn
from torch.optim import Optimizer

from sigmascope.core.guard import Refusal
from sigmascope.core.records import Skipped
from sigmascope.watching.sinks import OWN, WHOLE

LOG = logging.getLogger("sigmascope")


@dataclass(frozen=True, slots=True)
class Place:
    """A module with parameters of its own that an optimizer trains.

    Attributes:
        site: Its name.
        parameters: Those of them that are trained.
        optimizer: By which.
    """

    site: str
    parameters: tuple[nn.Parameter, ...]
    optimizer: Optimizer


def places(model: nn.Module, optimizers: Sequence[Optimizer]) -> list[Place]:
    """Every module with trained parameters of its own, in the model's order.

    Raises:
        Refusal: If no optimizer trains a parameter of the model.
    """
    trainer = {id(p): o for o in optimizers for p in trained(o)}
    named = (
        (name.rpartition(".")[0] or WHOLE, p)
        for name, p in model.named_parameters()
        if id(p) in trainer and p.is_floating_point()
    )
    groups = groupby(named, key=lambda each: (each[0], trainer[id(each[1])]))
    found = [
        Place(site, tuple(p for _, p in group), optimizer) for (site, optimizer), group in groups
    ]
    if not found:
        held = sum(len(list(trained(o))) for o in optimizers)
        raise Refusal(
            f"The optimizers must train parameters of the model, got {held} parameters of others. "
            "Pass the model that is trained and the optimizer made from its `parameters()`; make "
            "the optimizer first, and watch after the model was wrapped or sharded."
        )
    return found


def all_of_torch(optimizers: Sequence[Any]) -> tuple[Optimizer, ...]:
    """The optimizers of torch inside of wrappers, each once.

    Raises:
        Refusal: If there is none, or one is no optimizer.
    """
    if not optimizers:
        raise Refusal(
            "There must be at least one optimizer, got none. Pass the one that trains the "
            "model, as in `watch(model, optimizer)`."
        )
    return tuple(dict.fromkeys(of_torch(o) for o in optimizers))


def of_torch(optimizer: Any) -> Optimizer:
    """The optimizer of torch inside of a wrapper, as that of Accelerate or Lightning."""
    inner = optimizer
    while isinstance(within := getattr(inner, "optimizer", None), Optimizer):
        inner = within
    if not isinstance(inner, Optimizer):
        raise Refusal(
            f"`optimizers` must be optimizers of torch, got a {type(optimizer).__name__}. Pass "
            "what `step()` is called of, as in `watch(model, optimizer)`."
        )
    return inner


def trained(optimizer: Optimizer) -> Iterator[Tensor]:
    """The parameters that an optimizer holds."""
    for group in optimizer.param_groups:
        yield from group["params"]


class Added:
    """What optimizers are given to train after they were first seen; norms of it are not read.

    Args:
        optimizers: Of torch.
    """

    def __init__(self, optimizers: Sequence[Optimizer]) -> None:
        self._held = {o: len(list(trained(o))) for o in optimizers}

    def since(self) -> Iterator[Skipped]:
        """What has come since this was last asked."""
        for optimizer, before in self._held.items():
            if new := len(list(trained(optimizer))) - before:
                self._held[optimizer] += new
                why = f"{new} parameters came to an optimizer behind the start of this watch"
                LOG.warning("sigmascope does not read norms of added parameters: %s", why)
                yield Skipped(OWN, "norms of added parameters", why)
