"""Readings of a bottleneck on networks whose dimensions are known."""

import math

import pytest
import torch
from torch import nn

from sigmascope import networks, survey, theory
from sigmascope.diagnosis import judge
from sigmascope.theory.views.bottleneck import counted


def read(model, x):
    found = survey.profile(model, x, views=["bottleneck"])
    return found, {(r.site, r.quantity): r.estimate for r in found.readings}


def cube(n=40):
    return torch.rand(n, 3, generator=torch.Generator().manual_seed(0), dtype=torch.float64)


def test_a_network_of_bottleneck_rank_three():
    depth, eps = 12, 0.2
    net = theory.random_chains.lipschitz_counterexample(depth, eps=eps)
    _, found = read(net, cube())
    ranks = [e.value for (_, quantity), e in found.items() if quantity == "weight rank"]
    assert ranks == [3] * depth
    assert found["(network)", "Jacobian rank"].value == 3
    excess = found["(network)", "norm excess"]
    assert excess.value == pytest.approx(
        theory.random_chains.counterexample_excess(depth, eps), rel=0.2
    )
    assert excess.low >= 0
    distances = [e.value for (_, q), e in found.items() if q == "isometry distance"]
    assert max(distances) < 1.5


def test_a_projection_has_one_dimension_and_no_excess():
    line = torch.tensor([[0.6, 0.8]], dtype=torch.float64)
    net = nn.Sequential(
        nn.Linear(2, 1, bias=False), nn.ReLU(), nn.Linear(1, 2, bias=False)
    ).double()
    with torch.no_grad():
        net[0].weight.copy_(line)
        net[2].weight.copy_(line.T)
    x = torch.rand(20, 1, generator=torch.Generator().manual_seed(0)).double() @ line
    _, found = read(net, x)
    assert found["(network)", "norm excess"].value == pytest.approx(0, abs=1e-9)
    assert found["2", "two-component variance"].value == pytest.approx(1)
    assert found["2", "kernel angle"].value == pytest.approx(0, abs=1e-5)
    assert found["(network)", "balance defect"].value == pytest.approx(0, abs=1e-12)
    assert found["0.weight", "isometry distance"].value == pytest.approx(0, abs=1e-9)


def test_intervals_show_whether_there_is_a_gap():
    gap = counted(torch.tensor([1.0, 0.9, 1e-3]), 0.1, "values")
    none = counted(torch.tensor([1.0, 0.15, 0.09]), 0.1, "values")
    assert (gap.low, gap.value, gap.high) == (2, 2, 2)
    assert (none.low, none.value, none.high) == (1, 2, 3)


def test_other_networks_are_read_as_far_as_can_be():
    net = nn.Sequential(nn.Linear(3, 5), nn.BatchNorm1d(5), nn.ReLU(), nn.Linear(5, 2)).double()
    profile, found = read(net, cube())
    assert ("0.weight", "weight rank") in found
    assert ("(network)", "norm excess") not in found
    skipped = {s.what: s.why for s in profile.skipped}
    assert "something else than one activation" in skipped["norm excess and balance"]
    assert judge(profile) == ()


def test_angles_between_kernels_are_those_of_alignment():
    g = torch.Generator().manual_seed(0)
    net = networks.mlp(inputs=3, outputs=2, depth=2, width=6, generator=g).double()
    profile, found = read(net, cube())
    x = cube() - cube().mean(0)
    h = torch.relu(net.hidden[0].linear(cube())).detach()
    h = h - h.mean(0)
    one, two = x @ x.T, h @ h.T
    cosine = float((one * two).sum() / (one.norm() * two.norm()))
    site = profile.layers[1].site
    assert found[site, "kernel angle"].value == pytest.approx(math.acos(cosine))
