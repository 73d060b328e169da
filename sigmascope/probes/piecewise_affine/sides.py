"""Which side of its kink every activation is on."""

import torch
from torch import Tensor, nn

from sigmascope.probes.execution.freeze import still
from sigmascope.probes.execution.refusals import called
from sigmascope.probes.piecewise_affine.dispatch_trace import tracing
from sigmascope.probes.samples.batches import Batch, mapped, prepared, tensors


def activation_patterns(model: nn.Module, batch: Batch) -> dict[str, Tensor]:
    """The piece that every entry of every piecewise-linear activation is on, call by call.

    Args:
        model: Left as it was found.
        batch: As for `Subject`.

    Returns:
        By `"relu #1"`, in the order of the calls: 0, 1, ... for each entry.

    Raises:
        Refusal: If the model cannot be run on the batch.
    """
    live = mapped(
        prepared(model, batch), lambda t: t.requires_grad_() if t.is_floating_point() else t
    )
    with still(model), torch.enable_grad(), tracing() as trace:
        for t in tensors(live):
            if t.requires_grad:
                trace.source(t)
        called(model, mapped(live, lambda t: t.clone()))
    seen = (step.kink for step in trace.steps if step.kink is not None)
    return {f"{kink.name} #{i}": kink.side.detach() for i, kink in enumerate(seen, start=1)}
