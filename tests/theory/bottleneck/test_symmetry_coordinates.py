"""Orbits and coordinates on networks whose symmetry is known."""

import math

import pytest
import torch
from torch import nn

from sigmascope import theory
from sigmascope.gate import Refusal
from sigmascope.theory.jacot2023 import constructions


class Norms(nn.Module):
    """`(x_1, ‖(x_2, x_3)‖)`, read by a layer: rotations around the first axis change nothing."""

    def __init__(self):
        super().__init__()
        self.first = nn.Linear(3, 3, bias=False)
        self.last = nn.Linear(2, 4)
        nn.init.eye_(self.first.weight)

    def forward(self, x):
        x = self.first(x)
        return self.last(torch.stack([x[:, 0], x[:, 1:].norm(dim=1)], dim=1))


def orbits(count=30, turns=8):
    g = torch.Generator().manual_seed(0)
    x = torch.randn(count, 3, generator=g)
    angle = 2 * math.pi * torch.rand(count, turns, generator=g)
    y, z = x[:, 1, None], x[:, 2, None]
    around = [angle.cos() * y - angle.sin() * z, angle.sin() * y + angle.cos() * z]
    return torch.stack([x[:, :1].expand(-1, turns), *around], dim=2)


def test_orbits_are_points_where_the_symmetry_is_built_in():
    found = {r.site: r.estimate.value for r in theory.bottleneck.orbit_variance(Norms(), orbits())}
    assert found["first"] > 0.3
    assert found["last"] < 1e-10
    assert found["(output)"] < 1e-10


def test_pairs_that_mean_nothing_lie_as_far_apart_as_any():
    g = torch.Generator().manual_seed(1)
    pairs = torch.randn(500, 2, 3, generator=g)
    (first, *_) = theory.bottleneck.orbit_variance(Norms(), pairs)
    assert first.estimate.value == pytest.approx(0.5, abs=0.05)  # half of it is left in two draws


def test_coordinates_are_principal():
    x = orbits().flatten(0, 1)
    found = theory.bottleneck.coordinates(Norms(), x, site="first", count=3)
    assert found.share == pytest.approx(1)
    spread = found.values.std(0)
    assert bool((spread[:-1] >= spread[1:]).all())
    assert torch.allclose(found.values, found.of(x.double()))
    assert theory.bottleneck.coordinates(Norms(), x, after="first").site == "last"
    assert theory.bottleneck.coordinates(Norms(), x).site == "last"  # both hidden directions of two


def test_dynamics_that_close_are_told_from_those_that_do_not():
    task = constructions.symmetry_task(6, samples=600, generator=torch.Generator().manual_seed(0))
    w = task.axis.float()

    class Summary(nn.Module):
        def __init__(self, closed):
            super().__init__()
            self.closed, self.last = closed, nn.Linear(2, 2)

        def forward(self, v):
            along = v @ w
            rest = v.square().sum(1) if self.closed else v[:, 0]
            return self.last(torch.stack([along**2, rest], dim=1))

    v, moved = task.starts.float(), task.moved(task.starts).float()
    good = theory.bottleneck.self_consistency(Summary(True), v, moved, site="last")
    bad = theory.bottleneck.self_consistency(Summary(False), v, moved, site="last")
    assert good.low > 0.98
    assert bad.high < good.low


def test_nothing_is_explained_by_noise():
    g = torch.Generator().manual_seed(0)
    x, y = (torch.randn(300, 2, generator=g, dtype=torch.float64) for _ in range(2))
    assert theory.bottleneck.explained(x, y).value < 0.05
    assert theory.bottleneck.explained(x, x).low > 0.9


@pytest.mark.usefixtures("as_users_see_it")
def test_refusals():
    model, x = Norms(), orbits()
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
