"""What dropout takes away while a model trains."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from sigmascope.probes.execution.freeze import still
from sigmascope.probes.execution.refusals import called
from sigmascope.probes.samples.batches import Batch

FUNCTIONS = frozenset(
    f"{kind}dropout{dims}" for kind in ("", "feature_") for dims in ("", "1d", "2d", "3d")
)


@dataclass(slots=True)
class Dropped:
    """One place where numbers are dropped.

    Attributes:
        site: The module that is run there.
        before: Numbers that were not zero.
        after: Those of them that are zero then.
    """

    site: str
    before: int
    after: int

    @property
    def share(self) -> float:
        """Of the numbers that were not zero, those that are dropped."""
        return self.after / self.before


class _Watch(TorchFunctionMode):
    """Counts zeros before and after every call of dropout."""

    def __init__(self) -> None:
        super().__init__()
        self.inside: list[str] = [""]
        self.sums: dict[str, Dropped] = {}
        self.busy = False

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        kwargs = kwargs or {}
        x = args[0] if args else kwargs.get("input")
        watched = getattr(func, "__name__", "") in FUNCTIONS and isinstance(x, Tensor)
        if not watched or self.busy or not isinstance(x, Tensor):
            return func(*args, **kwargs)
        there = x != 0
        self.busy = True  # one kind of dropout calls another
        try:
            out = func(*args, **kwargs)
        finally:
            self.busy = False
        if isinstance(out, Tensor) and out.shape == there.shape and bool(there.any()):
            site = self.inside[-1]
            place = self.sums.setdefault(site, Dropped(site, 0, 0))
            place.before += int(there.sum())
            place.after += int((there & (out == 0)).sum())
        return out


@contextmanager
def watching_dropout(model: nn.Module) -> Iterator[dict[str, Dropped]]:
    """What share of the numbers each call of dropout sets to zero, counted in the runs inside.

    Args:
        model: Whose modules name the places; left as it was found.

    Yields:
        By the module in which it happens, in the order of the first call, when the runs are done.
        Dropout inside of fused layers (attention, recurrent ones) cannot be seen.
    """
    watch = _Watch()
    with ExitStack() as hooks:
        for name, module in model.named_modules():
            enter = lambda *_, name=name: watch.inside.append(name)
            leave = lambda *_: _last(watch.inside)
            hooks.callback(module.register_forward_pre_hook(enter).remove)
            hooks.callback(module.register_forward_hook(leave, always_call=True).remove)
        with watch:
            yield watch.sums


def dropped(model: nn.Module, *batches: Batch) -> tuple[Dropped, ...]:
    """What dropout takes away in training mode.

    Args:
        model: Left as it was found, random states too.
        batches: What it is run on, one after the other.

    Returns:
        As `watching_dropout` has it.

    Cost: one forward pass of each.
    """
    with still(model), torch.no_grad():
        model.train()
        with watching_dropout(model) as places:
            for batch in batches:
                called(model, batch)
    return tuple(places.values())


def _last(inside: list[str]) -> None:
    inside.pop()
