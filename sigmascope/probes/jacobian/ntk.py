"""The neural tangent kernel of a batch as an operator; no Jacobian by the parameters is formed."""

from collections import Counter
from collections.abc import Collection, Mapping, Sequence

import torch
from jaxtyping import Float64
from torch import Tensor, nn

from sigmascope.gate import Refusal
from sigmascope.linalg.krylov import Operator
from sigmascope.probes.execution.double_backward import (
    differentiable_twice,
    pushforward,
)
from sigmascope.probes.execution.hooks import module_name
from sigmascope.probes.execution.refusals import explaining
from sigmascope.probes.jacobian.backward import Sweep
from sigmascope.probes.scene import Scene

PIECE = 64  # samples on a tape at once


def require_separate(model: nn.Module, sites: Sequence[str], uncovered: Sequence[str]) -> None:
    """Every trained parameter must be used once, in a layer whose gradients a formula covers.

    Args:
        model: The model.
        sites: Its calls of layers.
        uncovered: Layers that no formula covers.

    Raises:
        Refusal: If one is not.
    """
    names = Counter(module_name(site) for site in sites)
    owners = Counter(
        id(p) for m in model.modules() for p in m.parameters(recurse=False) if p.requires_grad
    )
    bad = [*uncovered, *(name for name, uses in names.items() if uses > 1)]
    if max(owners.values(), default=0) > 1:
        bad.append("a tied weight")
    if bad:
        raise Refusal(_UNKNOWN.format(bad[0]))


def trace_of(swept: Sweep, count: int, *, without: Collection[str]) -> Float64[Tensor, " n"]:
    """`Tr Θ(x, x)` of every sample from the shares of all modules.

    Args:
        swept: Over every output.
        count: Samples.
        without: Modules that are counted otherwise.

    Raises:
        Refusal: If a share is not known.
    """
    total = torch.zeros(count, dtype=torch.float64)
    for site, adjoint in swept.adjoints.items():
        if module_name(site) in without:
            continue
        if adjoint.share_sq is None:
            raise Refusal(_UNKNOWN.format(site))
        total += adjoint.share_sq.sum(1).cpu()
    return total


_UNKNOWN = (
    "The exact trace needs layers whose gradients are known and used once, got {}. The reading "
    '"NTK trace" of `survey.profile` has an interval for it.'
)


def tangent_kernel(
    scene: Scene, parameters: Mapping[str, nn.Parameter], *, outputs: int
) -> Operator:
    """`Θ(X, X) = J Jᵀ`, with J the derivative of all outputs on all samples by the parameters.

    A product pulls a vector back to the parameters and pushes that forward again, each in pieces of
    the batch, so that neither J nor a tape of the whole batch is held.

    Args:
        scene: All samples.
        parameters: By which to differentiate.
        outputs: Entries of the output of one sample.
    """
    owned = list(parameters.values())
    size = scene.count * outputs

    def products(block: Tensor) -> Tensor:
        vectors = block.reshape(scene.count, outputs, -1)
        pulled = _pulled(scene, owned, vectors)
        out = torch.zeros_like(vectors)
        for piece, part in scene.pieces(PIECE):
            with differentiable_twice(scene.model), piece.on_tape() as run:
                push = pushforward(run.flat, owned)
                for column, sums in enumerate(pulled):
                    pushed = push(sums)
                    if pushed is not None:
                        out[part, :, column] = pushed.to(out)
        return out.reshape(size, -1)

    return Operator((size, size), products, products, owned[0].detach())


def _pulled(scene: Scene, owned: list[nn.Parameter], vectors: Tensor) -> list[list[Tensor]]:
    """`Jᵀ v` of every column v, by parameter."""
    pulled = [[torch.zeros_like(p) for p in owned] for _ in range(vectors.shape[2])]
    for piece, part in scene.pieces(PIECE):
        with explaining(), piece.on_tape() as run:
            flat = run.flat
            for column, sums in enumerate(pulled):
                u = vectors[part, :, column].to(flat)
                grads = torch.autograd.grad(flat, owned, u, retain_graph=True, allow_unused=True)
                for total, g in zip(sums, grads, strict=True):
                    if g is not None:
                        total += g
    return pulled
