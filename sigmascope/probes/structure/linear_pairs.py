"""Layers that read what another wrote, with nothing but linear maps between."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm
from torch.nn.modules.conv import _ConvNd

from sigmascope.probes.execution.hooks import Call
from sigmascope.probes.execution.layers import channel_dim, own_kind, transposed
from sigmascope.probes.jacobian.ntk_shares import acts_as_linear
from sigmascope.probes.samples.batches import Batch
from sigmascope.probes.structure.planted_numbers import planted

Mark = tuple[int, float]  # length, and the sum of the first numbers


@dataclass(frozen=True, slots=True)
class Pair:
    """Two layers that make one linear map.

    Attributes:
        first: Site of the one that writes.
        second: Site of the one that reads it.
        spare: Channels between them, over the lesser of what goes in and what comes out: from one
            on the narrow place between them saves nothing.
    """

    first: str
    second: str
    spare: float


def linear_pairs(model: nn.Module, batch: Batch, calls: Sequence[Call]) -> tuple[Pair, ...]:
    """Neighbours among layers without an activation between, seen by their numbers.

    A layer that reads, entry by entry, what an earlier one wrote, or what a batch normaliser made
    of it, which is linear where statistics are held, and which no other layer or normaliser reads
    (as beside a shortcut). Embeddings and grouped convolutions, which
    are factors by design, and tensors that were transposed in between are left out.

    On a batch on which no unit is off, a ReLU leaves every number as it is. So a pair counts only
    if it is one with planted numbers of both signs too (see `planted_numbers`).

    Args:
        model: Which somebody holds still.
        batch: What it is run on.
        calls: Of layers and normalisers, in the order in which they end.

    Cost: two forward passes, where there are such neighbours.
    """
    near = [(a, b) for a, b in _neighbours(calls) if _is_linear(a) and _is_linear(b)]
    for sign in (1, -1) if near else ():
        run = planted(model, batch, calls, sign=sign) or ()
        again = {(a.site, b.site) for a, b in _neighbours(run)}
        near = [(a, b) for a, b in near if (a.site, b.site) in again]
    return tuple(Pair(a.site, b.site, _spare(a, b)) for a, b in near)


def _neighbours(calls: Sequence[Call]) -> Iterator[tuple[Call, Call]]:
    """Calls that read what another wrote, or what normalisers made of it, in one run."""
    wrote: dict[Mark, list[Call]] = {}
    reads: dict[Mark, list[Call]] = {}
    for call in calls:
        if not call.spoiled:
            reads.setdefault(_mark(call.input), []).append(call)
    for call in calls:
        before = next(_before(call, wrote, reads), None)
        if before is not None:
            yield before, call
        if not call.spoiled:
            wrote.setdefault(_mark(call.output), []).append(call)


def _before(
    call: Call, wrote: dict[Mark, list[Call]], reads: dict[Mark, list[Call]]
) -> Iterator[Call]:
    """The layer whose output this call, and no other, read; past batch normalisers."""
    read = call.input
    if not read.is_floating_point() or bool((read == read.flatten()[:1]).all()):
        return  # equal numbers tell nothing of where they came from
    if sum(_same(read, other.input) for other in reads.get(_mark(read), [])) > 1:
        return  # another layer makes something else of it
    for other in reversed(wrote.get(_mark(read), [])):
        if _same(other.output, read):
            if isinstance(other.module, _BatchNorm):
                if own_kind(other.module):
                    yield from _before(other, wrote, reads)
            else:
                yield other
            return


def _same(a: Tensor, b: Tensor) -> bool:
    return torch.equal(a.detach().flatten(), b.detach().flatten())


def _mark(t: Tensor) -> Mark:
    flat = t.detach().flatten()
    return len(flat), float(flat[:64].double().sum()) if len(flat) else 0.0


def _is_linear(call: Call) -> bool:
    module = call.module
    if isinstance(module, nn.Embedding) or transposed(module):
        return False
    if isinstance(module, _ConvNd):
        return module.groups == 1
    known = isinstance(module, nn.Linear)
    return known or (
        not isinstance(module, _BatchNorm | nn.LayerNorm | nn.GroupNorm | nn.RMSNorm)
        and not call.spoiled
        and acts_as_linear(module, call.input, call.output.detach())
    )


def _spare(first: Call, second: Call) -> float:
    wide = lambda call, t: t.shape[channel_dim(call.module, t)]
    ends = wide(first, first.input), wide(second, second.output)
    return wide(first, first.output) / max(1, min(ends))
