"""Whether the output for one sample depends on the other samples of the batch."""

from collections.abc import Callable, Sequence

import torch
from torch import Tensor, nn

from sigmascope.probes.execution.forward import called
from sigmascope.probes.execution.layers import Statisticians
from sigmascope.probes.jacobian.backward import on_tape
from sigmascope.probes.samples.batches import Batch, as_tensor, chosen, mapped
from sigmascope.probes.samples.matrices import samples_first

ROUNDINGS = 256  # of the largest output, by which a row computed twice in its place may differ
COARSE = 1e-2  # the same where another number of rows lets other kernels run


def mixing(
    model: nn.Module,
    batch: Batch,
    modules: dict[str, nn.Module],
    frozen: Statisticians,
    *,
    count: int,
    batch_dim: int,
) -> str:
    """How samples mix, as the end of a sentence on the model; empty where they do not.

    Either half of the samples, dealt at random, is watched: whether its outputs change when the
    other half is replaced by copies of it, and whether they have a gradient by the other half. The
    first also sees what `detach` hides from the second. Last, one half is run alone.

    Args:
        model: Measured with the statistics in `frozen` held constant, which mix nothing.
        batch: All samples.
        modules: What the pass over the batch listened to.
        frozen: Statistics of the batch normalisers on the whole batch.
        count: Samples in the batch.
        batch_dim: Where the batch has them.

    Cost: three and a half forward passes and two backward passes.
    """
    if count < 2:
        return ""
    order = torch.randperm(count, generator=torch.Generator().manual_seed(0))
    first, second = order[: (count + 1) // 2], order[(count + 1) // 2 :]
    halves = ((first, second), (second, first))
    split = lambda t: samples_first(t, count=count, batch_dim=batch_dim)
    sources: list[Tensor] = []

    def leaf(t: Tensor) -> Tensor:
        if not t.is_floating_point():
            return t
        sources.append(t.detach().requires_grad_())
        return sources[-1].clone()  # the model may change it in place, which no leaf allows

    with on_tape(model, modules, frozen) as tape:
        out = split(as_tensor(called(model, mapped(batch, leaf)))[0])
        if out is None:
            return ""  # refused wherever it matters
        sources = sources or [c.output for c in tape.calls[:1]]
        leaks = any(_leaks(out, sources, *half, split) for half in halves)
    apart = lambda rows: _rerun(model, batch, modules, frozen, rows, batch_dim)
    before = out.detach().cpu()
    eps = torch.finfo(out.dtype).eps
    for ours, others in halves:
        copied = torch.arange(count)
        copied[others] = ours.repeat(2)[: len(others)]
        after = split(apart(copied))
        if after is None or _differ(before[ours], after.cpu()[ours], ROUNDINGS * eps):
            return "the output for a sample changes when other samples of the batch are exchanged"
    if leaks:
        return "the output for a sample has a gradient by other samples of the batch"
    try:
        alone = samples_first(apart(first), count=len(first), batch_dim=batch_dim)
    except (RuntimeError, ValueError, IndexError, TypeError, AssertionError):  # one size only
        return ""
    if alone is None or alone.shape != before[first].shape:
        return ""
    if _differ(before[first], alone.cpu(), COARSE):
        return "the output for a sample changes with the number of samples in the batch"
    return ""


def _rerun(
    model: nn.Module,
    batch: Batch,
    modules: dict[str, nn.Module],
    frozen: Statisticians,
    rows: Tensor,
    batch_dim: int,
) -> Tensor:
    with on_tape(model, modules, frozen), torch.no_grad():
        return as_tensor(called(model, chosen(batch, rows, batch_dim=batch_dim)))[0].detach()


def _leaks(
    out: Tensor,
    sources: Sequence[Tensor],
    ours: Tensor,
    others: Tensor,
    split: Callable[[Tensor], Tensor | None],
) -> bool:
    """Whether the outputs of ours have a gradient by the others."""
    if not out.requires_grad or not sources:
        return False
    g = torch.Generator().manual_seed(1)
    mine = out[ours.to(out.device)]
    seed = torch.randn(mine.shape, generator=g).to(mine)
    try:
        found = torch.autograd.grad(mine, sources, seed, retain_graph=True, allow_unused=True)
    except RuntimeError:  # what cannot be differentiated is said where it is asked for
        return False
    for grad in found:
        rows = None if grad is None else split(grad)
        if rows is not None:
            size = float(rows.abs().amax())
            theirs = float(rows[others.to(rows.device)].abs().amax())
            if theirs > ROUNDINGS * torch.finfo(rows.dtype).eps * size:
                return True
    return False


def _differ(one: Tensor, other: Tensor, tolerance: float) -> bool:
    """Whether finite entries are apart by more than a share of the largest."""
    a, b = one.double(), other.double()
    both = a.isfinite() & b.isfinite()
    if not bool(both.any()):
        return False
    scale = float(torch.maximum(a[both].abs(), b[both].abs()).amax())
    return float((a[both] - b[both]).abs().amax()) > min(tolerance, 0.25) * scale
