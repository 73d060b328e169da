"""Spectra of weights while they train, whole or in pieces on several processes."""

import pytest
import torch
from torch import nn

from sigmascope.watching.probes import WeightSpectra, spectra
from sigmascope.watching.probes.base import alone
from sigmascope.watching.probes.spectra import Shards
from sigmascope.watching.processes import Processes
from watching.together import together


def read(model, turns):
    probe = WeightSpectra(model, Processes(), torch.Generator().manual_seed(0))
    found = []
    for _ in range(turns):
        alone(probe.agree())
        found += probe.read(probe.local())
    return {(f.quantity, s): e for f in found if hasattr(f, "quantity")
            for s, e in zip(f.sites, f.estimates or f.values, strict=True)}  # fmt: skip


def test_norms_and_ranks_are_those_of_the_singular_values():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(20, 12), nn.Linear(12, 9)).double()
    found = read(model, 2)
    for site in ("0.weight", "1.weight"):
        s = torch.linalg.svdvals(model.get_parameter(site).detach())
        assert found["spectral norm", site].value == pytest.approx(float(s[0]), rel=1e-12)
        stable = float(s.square().sum() / s[0] ** 2)
        assert found["stable rank", site].value == pytest.approx(stable, rel=1e-12)


def test_noise_has_no_spikes_and_a_planted_one_is_counted():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(60, 60, bias=False), nn.Linear(60, 60, bias=False))
    with torch.no_grad():
        for layer in model:
            layer.weight.normal_()
        model[1].weight.add_(torch.outer(*torch.randn(2, 60)) * 0.6)
    found = read(model, 2)
    assert found["spikes", "0.weight"].value == 0
    assert found["spikes", "1.weight"].value == 1


def test_large_weights_are_read_by_their_leading_values(monkeypatch):
    monkeypatch.setattr(spectra, "FULL", 16)
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(80, 60))
    found = read(model, 1)
    s = torch.linalg.svdvals(model[0].weight.detach().double())
    norm = found["spectral norm", "0.weight"]
    assert norm.low <= float(s[0]) <= norm.high
    stable = found["stable rank", "0.weight"]
    assert stable.low <= float(s.square().sum() / s[0] ** 2) <= stable.high


@pytest.mark.parametrize(("value", "norm"), [(0.0, 0.0), (float("nan"), None)])
def test_zero_and_broken_weights_are_said_to_be(value, norm):
    model = nn.Sequential(nn.Linear(4, 4))
    nn.init.constant_(model[0].weight, value)
    found = read(model, 1)["spectral norm", "0.weight"]
    assert found == norm if norm is not None else found != found


def test_kernels_are_flattened_and_vectors_left_out():
    model = nn.Sequential(nn.Conv2d(3, 5, 3), nn.BatchNorm2d(5))
    found = read(model, 1)
    assert {site for _, site in found} == {"0.weight"}


SHAPES = [(7, 3), (3, 7), (40, 24), (2, 3, 5), (1, 9)]
LEADING = 6


def weight(shape):
    torch.manual_seed(0)
    return torch.randn(shape, dtype=torch.float64)


def read_in_pieces(rank):
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
    return together(4, read_in_pieces)[0]


@pytest.mark.parametrize("name", ["rows", "columns", "copied", "blocks"])
@pytest.mark.parametrize("shape", SHAPES)
def test_values_are_those_of_the_whole_weight_and_a_block_encloses_the_leading(found, shape, name):
    whole = weight(shape).flatten(1)
    true = torch.linalg.svdvals(whole)
    for block in (False, True):
        sigma, low, high, size = found[block, shape, name]
        k = min(len(sigma), len(true))
        assert tuple(size) == tuple(whole.shape)
        assert bool((low[:k] <= true[:k]).all())
        assert bool((true[:k] <= high[:k]).all())
        if block:
            assert 0 < len(sigma) <= min(LEADING, len(true))
            assert float(sigma[0]) == pytest.approx(float(true[0]), rel=1e-2)
        else:
            assert sigma[: len(true)] == pytest.approx(true, rel=1e-10)
