"""Singular values of the derivative of the output by the input, sample by sample."""

import math
from dataclasses import dataclass

import torch
from jaxtyping import Float64
from torch import Tensor, nn

from sigmascope.gate import Refusal
from sigmascope.probes.execution.double_backward import explaining
from sigmascope.probes.execution.layers import Statisticians
from sigmascope.probes.jacobian.backward import fitting, flat_output, on_tape
from sigmascope.probes.samples.batches import Batch, mapped, pieces, tensors
from sigmascope.probes.samples.matrices import samples_first

MOST = 64  # outputs, or random mixtures of them, that are differentiated


@dataclass(frozen=True, slots=True)
class Jacobians:
    """`∂f(x)/∂x` of every sample.

    Attributes:
        sigma: Singular values, descending; as many as the rank can be, or as there are mixtures.
        by: What the derivative is by: the input, or what the first layer writes of token ids.
        mixtures: How many random orthonormal mixtures of the outputs stand for them, if not all do.
    """

    sigma: Float64[Tensor, "n r"]
    by: str
    mixtures: int | None


def jacobians(
    model: nn.Module,
    batch: Batch,
    modules: dict[str, nn.Module],
    frozen: Statisticians,
    *,
    count: int,
    batch_dim: int,
    generator: torch.Generator,
) -> Jacobians:
    """One forward pass, and one backward pass for each output or mixture.

    Args:
        model: Measured with the statistics in `frozen` held constant.
        batch: All samples.
        modules: What the pass over the batch listened to.
        frozen: Statistics of the batch normalisers on the whole batch.
        count: Samples in the batch.
        batch_dim: Where it has them.
        generator: Draws the mixtures, if there are more outputs than 64.

    Raises:
        Refusal: If samples cannot be told apart, or the output depends on no input.
    """
    found: list[Tensor] = []
    by, mixed = "the input", None
    mix: Tensor | None = None
    width = sum(t[0].numel() for t in tensors(batch) if t.is_floating_point() and t.ndim)
    size = fitting(model, entries=count * max(width, 1), columns=MOST, count=count)
    for piece, part in pieces(batch, size=size, batch_dim=batch_dim):
        here = part.stop - part.start
        leaf = lambda t: t.detach().requires_grad_() if t.is_floating_point() else t
        with explaining(), on_tape(model, modules, frozen) as tape:
            watched = mapped(piece, leaf)
            flat = flat_output(model, watched, count=here, batch_dim=batch_dim)
            sources = [t for t in tensors(watched) if t.requires_grad]
            if not sources:
                sources, by = [tape.calls[0].output], f"what {tape.calls[0].site} writes"
            if mix is None:
                mix = _mixtures(flat.shape[1], generator).to(flat)
                mixed = None if len(mix) == flat.shape[1] else len(mix)
            found.append(_sigma(flat, sources, mix, here, batch_dim))
    return Jacobians(torch.cat(found), by, mixed)


def _mixtures(outputs: int, generator: torch.Generator) -> Tensor:
    """Rows that are the outputs, or random orthonormal mixtures of many of them."""
    if outputs <= MOST:
        return torch.eye(outputs, dtype=torch.float64)
    normal = torch.randn(outputs, MOST, generator=generator, dtype=torch.float64)
    return torch.linalg.qr(normal)[0].mT * math.sqrt(outputs / MOST)


def _sigma(
    flat: Tensor, sources: list[Tensor], mix: Tensor, count: int, batch_dim: int
) -> Float64[Tensor, "n r"]:
    if not flat.requires_grad:
        raise Refusal("The output must depend on the input, got one that does not.")
    rows: list[Tensor] = []
    for i, weights in enumerate(mix):
        last = i == len(mix) - 1
        pulled = torch.autograd.grad(
            (flat @ weights).sum(), sources, retain_graph=not last, allow_unused=True
        )
        split = [
            samples_first(g, count=count, batch_dim=batch_dim) for g in pulled if g is not None
        ]
        if not split or any(g is None for g in split):
            raise Refusal(
                "Every input that the output depends on must have one row per sample, got one "
                "that has not. Pass a batch whose tensors all have the batch dimension."
            )
        rows.append(torch.cat([g.reshape(count, -1) for g in split if g is not None], dim=1))
    J = torch.stack(rows, dim=1).double()
    return torch.linalg.svdvals(J).cpu()
