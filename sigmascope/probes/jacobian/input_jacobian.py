"""Singular values of the derivative of the output by the input, sample by sample."""

import math
from dataclasses import dataclass

import torch
from jaxtyping import Float64
from torch import Tensor

from sigmascope.gate import Refusal
from sigmascope.probes.execution.refusals import explaining
from sigmascope.probes.jacobian.sample_mixing import with_leaves
from sigmascope.probes.samples.batches import tensors
from sigmascope.probes.scene import Scene, Taped

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


def jacobians(scene: Scene, generator: torch.Generator) -> Jacobians:
    """One forward pass, and one backward pass for each output or mixture.

    Args:
        scene: All samples.
        generator: Draws the mixtures, if there are more outputs than 64.

    Raises:
        Refusal: If samples cannot be told apart, or the output depends on no input.
    """
    found: list[Tensor] = []
    by, mix, mixed = "the input", None, None
    floating = [t for t in tensors(scene.batch) if t.is_floating_point()]
    width = sum(t[0].numel() for t in floating if t.ndim)
    size = scene.fitting(entries=scene.count * max(width, 1), columns=MOST)
    for piece, _ in scene.pieces(size):
        with explaining(), with_leaves(piece).on_tape() as run:
            sources = [t for t in tensors(run.scene.batch) if t.requires_grad]
            if not sources:
                sources, by = [run.calls[0].output], f"what {run.calls[0].site} writes"
            if mix is None:
                mix = _mixtures(run.flat.shape[1], generator).to(run.flat)
            found.append(_sigma(run, sources, mix))
            mixed = None if len(mix) == run.flat.shape[1] else len(mix)
    return Jacobians(torch.cat(found), by, mixed)


def _mixtures(outputs: int, generator: torch.Generator) -> Tensor:
    """Rows that are the outputs, or random orthonormal mixtures of many of them."""
    if outputs <= MOST:
        return torch.eye(outputs, dtype=torch.float64)
    normal = torch.randn(outputs, MOST, generator=generator, dtype=torch.float64)
    return torch.linalg.qr(normal)[0].mT * math.sqrt(outputs / MOST)


def _sigma(run: Taped, sources: list[Tensor], mix: Tensor) -> Float64[Tensor, "n r"]:
    flat, count = run.flat, run.scene.count
    if not flat.requires_grad:
        raise Refusal("The output must depend on the input, got one that does not.")
    rows: list[Tensor] = []
    for i, weights in enumerate(mix):
        last = i == len(mix) - 1
        pulled = torch.autograd.grad(
            (flat @ weights).sum(), sources, retain_graph=not last, allow_unused=True
        )
        split = [run.scene.split(g) for g in pulled if g is not None]
        if not split or any(g is None for g in split):
            raise Refusal(
                "Every input that the output depends on must have one row per sample, got one "
                "that has not. Pass a batch whose tensors all have the batch dimension."
            )
        rows.append(torch.cat([g.reshape(count, -1) for g in split if g is not None], dim=1))
    J = torch.stack(rows, dim=1).double()
    return torch.linalg.svdvals(J).cpu()
