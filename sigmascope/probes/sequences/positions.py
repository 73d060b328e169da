"""Whether what a model writes at one place depends on what it reads at later ones."""

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from sigmascope.probes.execution.rounding import rounding
from sigmascope.probes.samples.batches import Batch, mapped
from sigmascope.probes.scene import Scene

ROUNDINGS = 4096  # of the largest output, by which the same numbers may differ


def later_inputs(scene: Scene, output: Tensor, *, name: str = "") -> float | None:
    """How far outputs change when inputs at later places are exchanged, next to their spread.

    The second half of every row is given to the next sample. What a causal model writes in the
    first half stays as it was.

    Args:
        scene: Samples along the first dimension, places along the second.
        output: What it wrote, `[samples, places, ...]`.
        name: The input that is changed: its key or number; empty where the batch is one tensor.

    Returns:
        Root mean square of the change over that of the differences between samples, in the first
        half of the places; 0 up to rounding, and None where there is no order to speak of.

    Cost: one forward pass.
    """
    length = output.shape[1] if output.ndim > 1 else 0
    half = length // 2
    if scene.batch_dim != 0 or scene.count < 2 or half < 1:
        return None
    changed = _exchanged(scene.batch, name, half, scene.count)
    with Scene(
        scene.model, changed, batch_dim=0, listened=scene.listened, frozen=scene.frozen
    ).on_tape(grad=False, listen=False) as run:
        after = run.output.detach()
    if after.shape != output.shape:
        return None
    a, b = output[:, :half].double(), after[:, :half].double()
    spread = float((a - a.mean(0)).square().mean().sqrt())
    moved = (a - b).abs()
    if not bool(moved.isfinite().all()) or not spread > 0:
        return None
    fine = rounding(output.dtype, ROUNDINGS) * float(a.abs().amax())
    return 0.0 if float(moved.amax()) <= fine else float(moved.square().mean().sqrt()) / spread


def _exchanged(batch: Batch, name: str, half: int, count: int) -> Batch:
    """The second halves of one input's rows, each given to the next sample."""

    def deal(t: Tensor) -> Tensor:
        if t.ndim < 2 or len(t) != count or t.shape[1] <= half:
            return t
        return torch.cat([t[:, :half], t[:, half:].roll(1, 0)], 1)

    if isinstance(batch, Tensor):
        return deal(batch)
    if isinstance(batch, Mapping):
        return {key: mapped(part, deal) if key == name else part for key, part in batch.items()}
    parts: list[Any] = [*batch]
    at = int(name)
    parts[at] = deal(parts[at])
    return tuple(parts)
