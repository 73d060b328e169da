"""Orbits and coordinates on networks whose symmetry is known."""

import math

import pytest
import torch
from torch import nn

from sigmascope import theory
from sigmascope.core.guard import Refusal
from sigmascope.theory.jacot2023 import constructions
from tests.models_zoo import Net


def norms():
    """`(x_1, ‖(x_2, x_3)‖)`, read by a layer: rotations around the first axis change nothing."""

    def forward(net, x):
        x = net.first(x)
        return net.last(torch.stack([x[:, 0], x[:, 1:].norm(dim=1)], dim=1))

    net = Net(forward, first=nn.Linear(3, 3, bias=False), last=nn.Linear(2, 4))
    nn.init.eye_(net.first.weight)
    return net


def orbits(count=30, turns=8):
    g = torch.Generator().manual_seed(0)
    x = torch.randn(count, 3, generator=g)
    angle = 2 * math.pi * torch.rand(count, turns, generator=g)
    y, z = x[:, 1, None], x[:, 2, None]
    around = [angle.cos() * y - angle.sin() * z, angle.sin() * y + angle.cos() * z]
    return torch.stack([x[:, :1].expand(-1, turns), *around], dim=2)


def test_orbits_are_points_where_the_symmetry_is_built_in():
    found = {r.site: r.estimate.value for r in theory.bottleneck.orbit_variance(norms(), orbits())}
    assert found["first"] > 0.3
    assert found["last"] < 1e-10
    assert found["(output)"] < 1e-10


def test_pairs_that_mean_nothing_lie_as_far_apart_as_any():
    g = torch.Generator().manual_seed(1)
    pairs = torch.randn(500, 2, 3, generator=g)
    (first, *_) = theory.bottleneck.orbit_variance(norms(), pairs)
    assert first.estimate.value == pytest.approx(0.5, abs=0.05)  # half of it is left in two draws


def test_coordinates_are_principal():
    x = orbits().flatten(0, 1)
    found = theory.bottleneck.coordinates(norms(), x, site="first", count=3)
    assert found.share == pytest.approx(1)
    spread = found.values.std(0)
    assert bool((spread[:-1] >= spread[1:]).all())
    assert torch.allclose(found.values, found.of(x.double()))
    assert theory.bottleneck.coordinates(norms(), x, after="first").site == "last"
    assert theory.bottleneck.coordinates(norms(), x).site == "last"  # both hidden directions of two


@pytest.mark.parametrize("narrow", [1, 2, 3])
def test_without_a_site_it_is_the_layer_with_the_most_along_so_many_axes(narrow):
    torch.manual_seed(0)
    layers = [nn.Linear(6, 6, bias=False) for _ in range(5)]
    with torch.no_grad():
        for layer in layers:
            nn.init.eye_(layer.weight)
        layers[narrow - 1].weight.diagonal()[2:] = 0.1
        layers[narrow].weight.diagonal()[2:] = 10.0
    found = theory.bottleneck.coordinates(nn.Sequential(*layers), torch.randn(50, 6))
    assert found.site == str(narrow)
    assert found.share > 0.9


def test_dynamics_that_close_are_told_from_those_that_do_not():
    task = constructions.symmetry_task(6, samples=600, generator=torch.Generator().manual_seed(0))
    w = task.axis.float()

    def summary(rest):
        forward = lambda net, v: net.last(torch.stack([(v @ w) ** 2, rest(v)], dim=1))
        return Net(forward, last=nn.Linear(2, 2))

    closed, bare = summary(lambda v: v.square().sum(1)), summary(lambda v: v[:, 0])
    v, moved = task.starts.float(), task.moved(task.starts).float()
    good = theory.bottleneck.self_consistency(closed, v, moved, site="last")
    bad = theory.bottleneck.self_consistency(bare, v, moved, site="last")
    assert good.low > 0.98
    assert bad.high < good.low


def test_nothing_is_explained_by_noise():
    g = torch.Generator().manual_seed(0)
    x, y = (torch.randn(300, 2, generator=g, dtype=torch.float64) for _ in range(2))
    assert theory.bottleneck.explained(x, y).value < 0.05
    assert theory.bottleneck.explained(x, x).low > 0.9


@pytest.mark.usefixtures("as_users_see_it")
def test_refusals():
    model, x = norms(), orbits()
    with pytest.raises(Refusal, match=r"must be \[inputs, equivalents"):
        theory.bottleneck.orbit_variance(model, x[:, :1])
    with pytest.raises(Refusal, match="there are first, last"):
        theory.bottleneck.coordinates(model, x[:, 0], site="middle")
    with pytest.raises(Refusal, match="Ask for fewer"):
        theory.bottleneck.coordinates(model, x[:, 0], count=9)
    with pytest.raises(Refusal, match="the next state of each sample"):
        theory.bottleneck.self_consistency(model, x[:, 0], x[:5, 0])
    with pytest.raises(Refusal, match="more than 5 samples"):
        theory.bottleneck.explained(x[:4, 0].double(), x[:4, 0].double())
    with pytest.raises(Refusal, match="must vary"):
        theory.bottleneck.explained(x[:, 0].double(), torch.ones(30, 1).double())


def test_the_variance_is_around_the_mean_wherever_that_lies():
    """Two orbits at 9 and 13, each of two points one to either side: 1 of 1 + 4 within."""
    orbits = torch.tensor([[[8.0], [10.0]], [[12.0], [14.0]]])
    net = nn.Linear(1, 1, bias=False)
    nn.init.constant_(net.weight, 3.0)
    for reading in theory.bottleneck.orbit_variance(net, orbits):
        assert reading.estimate.value == pytest.approx(1 / 5)
