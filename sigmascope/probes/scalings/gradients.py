"""The gradient that balances are measured with: of the loss, or of a random sum of the outputs."""

from typing import Any

import torch
from torch import Tensor, nn

from sigmascope.probes.batches import Batch, as_tensor, prepared, tensors
from sigmascope.probes.gradients import Loss
from sigmascope.probes.passes import called
from sigmascope.probes.refusals import Refusal
from sigmascope.probes.scalings.traces import alive


def trial_gradients(
    model: nn.Module,
    batch: Batch,
    *,
    targets: Any = None,
    loss: Loss | None = None,
    generator: torch.Generator | None = None,
) -> dict[str, Tensor]:
    """Gradient in every trained parameter, in the model's own modes; zero where it has none.

    Args:
        model: Left as it was found.
        batch: As for `Subject`.
        targets: What `loss` compares the output with.
        loss: Without it, the outputs are summed with independent normal weights: what is conserved
            for every loss is conserved for this one.
        generator: Draws those weights; a fixed one of its own if not given.

    Raises:
        Refusal: If the model has no gradient.
    """
    learnable = {n: p for n, p in model.named_parameters() if p.requires_grad}
    generator = generator or torch.Generator().manual_seed(0)
    with alive(model):
        out = called(model, prepared(model, batch))
        if loss is not None and targets is not None:
            scalar = loss(as_tensor(out)[0], targets)
        else:
            floating = [t for t in tensors(out) if t.is_floating_point() and t.requires_grad]
            weighted = (
                (t * torch.randn(t.shape, generator=generator).to(t.device, t.dtype)).sum()
                for t in floating
            )
            scalar = sum(weighted, torch.zeros(()))
        try:
            grads = torch.autograd.grad(
                scalar, list(learnable.values()), allow_unused=True, materialize_grads=True
            )
        except RuntimeError as error:
            raise Refusal(
                f"`model` must be one that can be trained, got {type(model).__name__}, of which "
                f"autograd says: {' '.join(str(error).split())[:200]} Correct its forward pass "
                "first."
            ) from error
    return {n: g.detach() for n, g in zip(learnable, grads, strict=True)}
