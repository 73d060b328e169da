"""Whether an operation treats two units alike, so that mixing them would go unnoticed too.

Every operation that is not the same linear map for all units adds to the signature of each unit a
number that depends on how it treats that unit; units of one signature may be mixed.
"""

from enum import IntFlag

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from sigmascope.probes.symmetry.parameter_layout import ids_of
from sigmascope.probes.symmetry.scaled_tensors import Shadows, compact

ODD = 0x9E3779B97F4A7C15  # 2^64 over the golden ratio: spreads consecutive numbers


class Passed(IntFlag):
    """Kinds of operation that keep units apart."""

    ACTIVATION = 1
    POOLING = 2
    GAIN = 4  # a learnable number for each unit
    DATA = 8  # numbers that differ by unit: a mask, a gate, a rotation of positions
    HEADS = 16  # each head on its own
    NORMALISER = 32  # divided by its own size


def mixed(numbers: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Numbers scattered over 64 bits (the finaliser of splitmix64; Steele et al. 2014)."""
    with np.errstate(over="ignore"):
        z = numbers + np.uint64(ODD)
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        return z ^ (z >> np.uint64(31))


def told_apart(shadows: Shadows, labels: Tensor, kind: Passed) -> None:
    """Every unit is treated in its own way."""
    ids = np.unique(ids_of(compact(labels)[0]))
    _add(shadows, ids, ids.astype(np.uint64), kind)


def treated(shadows: Shadows, labels: Tensor, values: Tensor, kind: Passed) -> None:
    """Each unit is treated as `values` say, entry by entry.

    An activation that treats all units alike here keeps none apart; it is passed all the same.
    """
    shape = torch.broadcast_shapes(labels.shape, values.shape)
    labels, values = labels.expand(shape), values.expand(shape)
    if _scalar(values):
        ids = np.unique(ids_of(compact(labels)[0]))
        shadows.unknowns.passed[ids[ids > 0]] |= np.uint64(kind & Passed.ACTIVATION)
        return
    varying = [a for a in range(labels.ndim) if len(compact(labels.movedim(a, 0))[0]) > 1]
    rest = [a for a in range(labels.ndim) if a not in varying]
    order = (*varying, *rest)
    units = labels.permute(order)
    for _ in rest:
        units = units[..., 0]
    ids = ids_of(units.reshape(-1))
    rows = _bits(values.permute(order)).reshape(len(ids), -1)
    _add(shadows, ids, _hashes(rows), kind)


def by_place(shadows: Shadows, labels: Tensor, axis: int, kind: Passed) -> None:
    """Each unit is treated as its places along one axis say."""
    places = torch.arange(labels.shape[axis], dtype=torch.int64)
    shape = [1] * labels.ndim
    shape[axis] = -1
    spread = places.reshape(shape).expand(labels.shape)
    small = compact(labels, spread)
    pairs = torch.stack([t.flatten().long() for t in small]).unique(dim=1).numpy()
    _add(shadows, pairs[0], mixed(pairs[1].astype(np.uint64)), kind, alike=True)


def _add(
    shadows: Shadows,
    ids: NDArray[np.int64],
    hashes: NDArray[np.uint64],
    kind: Passed,
    *,
    alike: bool = False,
) -> None:
    """Add to signatures; the second treatment of one unit counts as such, unless `alike`."""
    unknowns = shadows.unknowns
    operation = np.uint64(shadows.new_bundle())
    if not alike:
        order = np.argsort(ids, kind="stable")
        starts = np.flatnonzero(np.r_[True, np.diff(ids[order]) != 0])
        lengths = np.diff(np.r_[starts, len(ids)])
        rank = np.empty(len(ids), np.uint64)
        rank[order] = np.arange(len(ids)) - np.repeat(starts, lengths)
        hashes = hashes + rank * np.uint64(ODD)
    with np.errstate(over="ignore"):
        hashes = mixed(hashes ^ mixed(np.full(1, operation))[0])
    alive = ids > 0
    np.add.at(unknowns.signature, ids[alive], hashes[alive])
    unknowns.passed[ids[alive]] |= np.uint64(kind)


def _scalar(values: Tensor) -> bool:
    """Whether all entries are one number, so that all units are treated alike."""
    return values.numel() > 0 and bool((values == values.reshape(-1)[:1]).all())


def _bits(values: Tensor) -> Tensor:
    if not values.is_floating_point():
        return values.to("cpu", torch.int64)
    return values.detach().to("cpu", torch.float64).contiguous().view(torch.int64)


def _hashes(rows: Tensor) -> NDArray[np.uint64]:
    """A number for each row."""
    places = mixed(np.arange(rows.shape[1], dtype=np.uint64) + np.uint64(1))
    weights = torch.from_numpy(places.view(np.int64))
    found = np.empty(len(rows), np.uint64)
    for i, row in enumerate(rows):
        scattered = mixed(row.contiguous().numpy().view(np.uint64))
        with np.errstate(over="ignore"):
            found[i] = (scattered * weights.numpy().view(np.uint64)).sum(dtype=np.uint64)
    return found
