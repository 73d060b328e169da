"""Squashing activations: sigmoid, tanh and their kin, wherever they are called."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode

from sigmascope.probes.execution.forward import called
from sigmascope.probes.execution.freeze import still
from sigmascope.probes.execution.hooks import recording
from sigmascope.probes.execution.layers import layers
from sigmascope.probes.samples.batches import Batch

ENDS = {  # where each squashes to
    "sigmoid": (0.0, 1.0),
    "hardsigmoid": (0.0, 1.0),
    "tanh": (-1.0, 1.0),
    "hardtanh": (-1.0, 1.0),
    "softsign": (-1.0, 1.0),
}
NEAR = 0.01  # of the range, from an end


@dataclass(frozen=True, slots=True)
class Squash:
    """What a squashing activation gives to the layer that reads it.

    Attributes:
        site: The layer that reads it.
        kind: E.g. `"sigmoid"`.
        saturated: Share of the entries within a hundredth of an end of the range, where the
            derivative is below a twenty-fifth of its largest.
    """

    site: str
    kind: str
    saturated: float


class _Watch(TorchFunctionMode):
    def __init__(self) -> None:
        super().__init__()
        self.seen: list[tuple[str, Tensor]] = []

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Iterable[type],
        args: tuple[Any, ...] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        found = func(*args, **(kwargs or {}))
        kind = getattr(func, "__name__", "").rstrip("_")
        if kind in ENDS and isinstance(found, Tensor):
            self.seen.append((kind, found))
        return found


def squashes(model: nn.Module, batch: Batch) -> tuple[Squash, ...]:
    """Every layer that reads what a squashing activation wrote, in the order of calls.

    Activations inside fused recurrent layers are not seen.

    Args:
        model: Left as it was found.
        batch: What it is run on.

    Raises:
        Refusal: If the model cannot be run on the batch.

    Cost: a forward pass.
    """
    with still(model), torch.no_grad(), recording(layers(model)) as tape, _Watch() as watch:
        called(model, batch)
    wrote = {t.untyped_storage().data_ptr(): (kind, t) for kind, t in watch.seen}
    found = []
    for c in tape.calls:
        kind, t = wrote.get(c.input.untyped_storage().data_ptr(), ("", None))
        if t is not None and t.numel():
            low, high = ENDS[kind]
            edge = NEAR * (high - low)
            share = ((t < low + edge) | (t > high - edge)).double().mean().item()
            found.append(Squash(c.site, kind, share))
    return tuple(found)
