"""What watches training in `benchmarks.watching`: `ss.watch` in four ways, and its peers."""

import importlib.util
import logging
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any, Protocol

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from sigmascope.watching import watch

EVERY = 10  # steps between two readings of a peer


class Watcher(Protocol):
    """Told the loss of each step."""

    def step(self, loss: Tensor) -> object:
        """A step was made."""
        ...


class Svdvals:
    """By hand: all singular values of every weight."""

    def __init__(self, model: nn.Module, *_: Any) -> None:
        self._weights = [p for p in model.parameters() if p.ndim > 1]
        self._steps = 0
        self.found: list[list[float]] = []

    def step(self, loss: Tensor) -> None:
        """A step was made."""
        self._steps += 1
        if self._steps % EVERY == 0:
            with torch.no_grad():
                self.found = [torch.linalg.svdvals(p.flatten(1)).tolist() for p in self._weights]


class Ndtracker:
    """`HighFrequencyTracker` of ndtracker, of the layers that it finds."""

    def __init__(self, model: nn.Module, *_: Any) -> None:
        from ndt import HighFrequencyTracker

        self._tracker = HighFrequencyTracker(model, sampling_frequency=EVERY)
        self._steps = 0

    def step(self, loss: Tensor) -> None:
        """A step was made."""
        self._steps += 1
        if self._steps % EVERY == 0:
            self._tracker.log(self._steps, float(loss.detach()))


class Delve:
    """`SaturationTracker` of delve."""

    def __init__(self, model: nn.Module, *rest: Any) -> None:
        from delve import SaturationTracker

        logging.getLogger("delve").setLevel(logging.WARNING)
        folder = str(rest[-1].with_suffix(""))
        self._tracker = SaturationTracker(
            folder, save_to="csv", modules=model, log_interval=EVERY, device="cpu"
        )
        self._steps = 0

    def step(self, loss: Tensor) -> None:
        """A step was made."""
        self._steps += 1
        if self._steps % EVERY == 0:
            self._tracker.add_saturations()


def watched(
    model: nn.Module,
    optimizer: torch.optim.Optimizer,
    batch: tuple[Tensor, Tensor],
    clock: Callable[[], float],
    file: Path,
    *,
    filed: bool = False,
    **options: Any,
) -> Watcher:
    """`ss.watch`."""
    return watch(model, optimizer, clock=clock, run=file if filed else None, **options)


def profiled(
    model: nn.Module,
    optimizer: torch.optim.Optimizer,
    batch: tuple[Tensor, Tensor],
    *_: Any,
    view: Any,
    only: str = "profile",
) -> Watcher:
    """`ss.watch` of a probe batch in one view, and of nothing else."""
    of = {"probe_batch": batch[0], "targets": batch[1], "loss": F.cross_entropy, "only": [only]}
    return watch(model, optimizer, views=[view], every=EVERY, **of)


CHEAP = MappingProxyType({"only": ("gradients", "updates"), "budget": 0.003})
WATCHES: Mapping[str, Callable[..., Watcher]] = MappingProxyType({
    "watch": watched,
    "watch, run file": partial(watched, filed=True),
    "cheap set": partial(watched, **CHEAP),
})  # fmt: skip
LATER: Mapping[str, Callable[..., Watcher]] = MappingProxyType(
    {name: partial(make, start=20_000) for name, make in WATCHES.items()}
)
PEERS: Mapping[str, Callable[..., Watcher]] = MappingProxyType({
    "svdvals": Svdvals,
    **({"ndtracker": Ndtracker} if importlib.util.find_spec("ndt") else {}),
    **({"delve": Delve} if importlib.util.find_spec("delve") else {}),
    **{f"profile, {v}": partial(profiled, view=v)
       for v in ("representations", "weights", "balances")},
    "conservation": partial(profiled, view="balances", only="conservation"),
})  # fmt: skip
