"""Spectra of weights that lie on several processes in pieces."""

import pytest
import torch
from torch import nn

from sigmascope.watching.probes import spectra
from sigmascope.watching.probes.spectra import Shards
from sigmascope.watching.processes import Processes
from watching.together import together

SHAPES = [(7, 3), (3, 7), (40, 24), (2, 3, 5), (1, 9)]
LEADING = 6


def weight(shape):
    torch.manual_seed(0)
    return torch.randn(shape, dtype=torch.float64)


def read(rank):
    """Spectra of each shape in each way to cut it, and of a block of vectors."""
    from torch.distributed.device_mesh import init_device_mesh
    from torch.distributed.tensor import Replicate, Shard, distribute_tensor

    flat = init_device_mesh("cpu", (4,))
    square = init_device_mesh("cpu", (2, 2), mesh_dim_names=("a", "b"))
    everyone = Processes.of(nn.Linear(2, 2), True)
    ways = {
        "rows": (flat, [Shard(0)]),
        "columns": (flat, [Shard(1)]),
        "copied": (square, [Replicate(), Shard(0)]),
        "blocks": (square, [Shard(0), Shard(1)]),
    }
    found = {}
    for most in (spectra.GRAM, 2):
        spectra.GRAM = most  # columns above which a block of vectors is multiplied
        for shape in SHAPES:
            for name, (mesh, placements) in ways.items():
                mine = Shards.of(distribute_tensor(weight(shape), mesh, placements), everyone)
                found[most == 2, shape, name] = spectrum(mine, everyone)
    return found


def spectrum(mine, everyone):
    steps = mine.block(torch.Generator().manual_seed(3))
    block, total = None, None
    while True:
        try:
            given = next(steps) if total is None else steps.send(total)
        except StopIteration as end:
            block = end.value
            break
        total = everyone.summed(given)
    s = mine.spectrum(everyone.summed(mine.part(block)))
    return s.sigma, s.low, s.high, s.shape


@pytest.fixture(scope="module")
def found():
    return together(4, read)[0]


@pytest.mark.parametrize("name", ["rows", "columns", "copied", "blocks"])
@pytest.mark.parametrize("shape", SHAPES)
def test_values_are_those_of_the_whole_weight(found, shape, name):
    sigma, low, high, size = found[False, shape, name]
    true = torch.linalg.svdvals(weight(shape).flatten(1))
    assert tuple(size) == tuple(weight(shape).flatten(1).shape)
    assert sigma[: len(true)] == pytest.approx(true, rel=1e-10)
    assert bool((low[: len(true)] <= true).all())
    assert bool((true <= high[: len(true)]).all())


@pytest.mark.parametrize("name", ["rows", "columns", "copied", "blocks"])
@pytest.mark.parametrize("shape", SHAPES)
def test_a_block_of_vectors_encloses_the_leading_values(found, shape, name):
    sigma, low, high, _ = found[True, shape, name]
    true = torch.linalg.svdvals(weight(shape).flatten(1))[: len(sigma)]
    assert 0 < len(sigma) <= LEADING
    assert bool((low <= true).all())
    assert bool((true <= high).all())
    assert float(sigma[0]) == pytest.approx(float(true[0]), rel=1e-2)
