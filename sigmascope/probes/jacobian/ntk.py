"""The neural tangent kernel of a batch as an operator; no Jacobian by the parameters is formed."""

from collections import Counter
from collections.abc import Collection, Sequence

import torch
from jaxtyping import Float64
from torch import Tensor, nn

from sigmascope.gate import Refusal
from sigmascope.linalg.krylov import Operator
from sigmascope.probes.execution.double_backward import (
    differentiable_twice,
    explaining,
    pushforward,
)
from sigmascope.probes.execution.hooks import module_name
from sigmascope.probes.execution.layers import Statisticians
from sigmascope.probes.jacobian.backward import Sweep, flat_output, on_tape
from sigmascope.probes.samples.batches import Batch, pieces

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
    model: nn.Module,
    batch: Batch,
    modules: dict[str, nn.Module],
    frozen: Statisticians,
    parameters: dict[str, nn.Parameter],
    *,
    count: int,
    outputs: int,
    batch_dim: int,
) -> Operator:
    """`Θ(X, X) = J Jᵀ`, with J the derivative of all outputs on all samples by the parameters.

    A product pulls a vector back to the parameters and pushes that forward again, each in pieces of
    the batch, so that neither J nor a tape of the whole batch is held.

    Args:
        model: Measured with the statistics in `frozen` held constant.
        batch: All samples.
        modules: What the pass over the batch listened to.
        frozen: Statistics of the batch normalisers on the whole batch.
        parameters: By which to differentiate.
        count: Samples in the batch.
        outputs: Entries of the output of one sample.
        batch_dim: Where the batch has its samples.
    """
    owned = list(parameters.values())

    def products(block: Tensor) -> Tensor:
        vectors = block.reshape(count, outputs, -1)
        pulled = [[torch.zeros_like(p) for p in owned] for _ in range(vectors.shape[2])]
        for piece, part in pieces(batch, size=PIECE, batch_dim=batch_dim):
            with explaining(), on_tape(model, modules, frozen):
                flat = flat_output(model, piece, count=part.stop - part.start, batch_dim=batch_dim)
                for column, sums in enumerate(pulled):
                    u = vectors[part, :, column].to(flat)
                    found = torch.autograd.grad(
                        flat, owned, u, retain_graph=True, allow_unused=True
                    )
                    for total, g in zip(sums, found, strict=True):
                        if g is not None:
                            total += g
        out = torch.zeros_like(vectors)
        for piece, part in pieces(batch, size=PIECE, batch_dim=batch_dim):
            with differentiable_twice(model), on_tape(model, modules, frozen):
                flat = flat_output(model, piece, count=part.stop - part.start, batch_dim=batch_dim)
                push = pushforward(flat, owned)
                for column, sums in enumerate(pulled):
                    pushed = push(sums)
                    if pushed is not None:
                        out[part, :, column] = pushed.to(out)
        return out.reshape(count * outputs, -1)

    size = count * outputs
    return Operator((size, size), products, products, owned[0].detach())
