"""Polygons of regions: they tile the square, each has one pattern, and neighbours differ."""

import numpy as np
import pytest
import torch
from affine_zoo import NETWORKS, D, built
from torch import nn

from sigmascope import networks
from sigmascope.gate import Refusal
from sigmascope.theory.piecewise_affine import local_affine, partition, regions_along
from sigmascope.theory.piecewise_affine.regions import Polygon
from tests.sampling import some


def plane(shape, seed=0, scale=3.0):
    g = torch.Generator().manual_seed(seed)
    draw = lambda: torch.randn(shape, generator=g, dtype=D)
    return draw(), scale * draw() / shape[1] ** 0.5, scale * draw() / shape[1] ** 0.5


def area(corners):
    return Polygon(corners.numpy(), np.zeros((len(corners), 0))).area


def inside(corners, count, g):
    """Random points of a convex polygon."""
    weights = torch.rand(count, len(corners), generator=g, dtype=D).log().neg()
    return (weights / weights.sum(1, keepdim=True)) @ corners


def at(point, centre, across, along):
    return centre + point[0] * across + point[1] * along


def pattern(model, x):
    regions = local_affine(model, x).regions
    return [side for r in regions for side in r.flatten().tolist()]


@pytest.mark.parametrize("kind", some(NETWORKS))
def test_the_polygons_tile_the_square_and_each_has_one_pattern(kind):
    model, x, _ = built(kind)
    shape = x.shape
    axes = plane(shape, scale=3.0 if len(shape) == 2 else 0.3)
    found = partition(model, *axes)
    areas = [area(p) for p in found.polygons]
    assert sum(areas) == pytest.approx(4.0, rel=1e-11)
    assert found.counts[-1:] in ((), (len(found.polygons),))
    g = torch.Generator().manual_seed(1)
    seen = []
    biggest = sorted(range(len(areas)), key=lambda i: -areas[i])[:12]
    for i in biggest:
        points = inside(found.polygons[i], 3, g)
        patterns = [pattern(model, at(p, *axes)) for p in points]
        assert all(p == patterns[0] for p in patterns)
        seen.append(tuple(patterns[0]))
    if kind != "max-pooling":  # the same winners may be left and right of others
        assert len(set(seen)) == len(seen)


@pytest.mark.parametrize("kind", ["relu", "residual", "dense", "hard", "max-pooling"])
def test_segments_meet_as_many_polygons_as_regions(kind):
    model, x, _ = built(kind)
    shape = x.shape
    axes = plane(shape, scale=3.0 if len(shape) == 2 else 0.3)
    found = partition(model, *axes)
    for seed in range(1 if kind == "max-pooling" else 3):  # it has many polygons
        g = torch.Generator().manual_seed(seed)
        a, b = (torch.rand(2, generator=g, dtype=D) * 2 - 1 for _ in range(2))
        along = regions_along(model, at(a, *axes), at(b, *axes))
        points = a + torch.linspace(0, 1, 20001, dtype=D)[:, None] * (b - a)
        place = torch.full((len(points),), -1)
        for i, p in enumerate(found.polygons):
            d, r = p.roll(-1, 0) - p, points[:, None] - p
            left = d[:, 0] * r[..., 1] - d[:, 1] * r[..., 0]
            place[(left >= 0).all(1)] = i
        met = 1 + int((place[1:] != place[:-1]).sum())
        assert met <= along.count
        assert met >= along.count - 2  # those shorter than a step


def test_a_toy_layer_cuts_the_plane_into_seven():
    net = nn.Sequential(nn.Linear(2, 3), nn.ReLU(), nn.Linear(3, 1)).double()
    with torch.no_grad():
        net[0].weight.copy_(torch.tensor([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]]))
        net[0].bias.copy_(torch.tensor([0.0, 0.0, -0.5]))
    square = torch.zeros(1, 2, dtype=D), torch.tensor([[1.0, 0.0]]), torch.tensor([[0.0, 1.0]])
    found = partition(net, *square)
    assert found.counts == (7,)
    assert found.names == ("relu",)
    areas = sorted(area(p) for p in found.polygons)
    assert areas == pytest.approx([0.125, 0.125, 0.125, 0.875, 0.875, 0.875, 1.0])
    assert float(found.cuts.abs().max()) <= 1
    assert torch.equal(found.by, torch.zeros(len(found.by), dtype=torch.int64))
    lengths = (found.cuts[:, 0] - found.cuts[:, 1]).norm(dim=1).sum().item()
    assert lengths == pytest.approx(2 + 2 + 1.5 * 2**0.5)


def test_outputs_are_those_at_the_centres():
    model, x, _ = built("relu")
    shape = x.shape
    axes = plane(shape)
    found = partition(model, *axes)
    for i in (0, len(found.polygons) // 2):
        point = found.polygons[i].mean(0)
        assert torch.allclose(model(at(point, *axes))[0], found.outputs[i], atol=1e-12)


def test_refusals(as_users_see_it):
    x = torch.ones(1, 4)
    e = torch.eye(4)
    smooth = networks.mlp(inputs=4, outputs=2, activation="tanh")
    with pytest.raises(Refusal, match="Tanh"):
        partition(smooth, x, e[:1], e[1:2])
    wide = networks.mlp(inputs=4, outputs=2, depth=3, width=300).double()
    far = 100 * e.double()
    with pytest.raises(Refusal, match="at most 20000 regions"):
        partition(wide, x.double(), far[:1], far[1:2])
