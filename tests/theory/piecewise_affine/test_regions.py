from itertools import pairwise

import numpy as np
import pytest
import torch
from affine_zoo import NETWORKS, PIECEWISE, D, built, through
from torch import nn
from torch.nn import functional as F

from sigmascope.core.guard import Refusal
from sigmascope.models import networks
from sigmascope.theory.piecewise_affine import (
    local_affine,
    partition,
    region_distance,
    regions,
    regions_along,
)
from sigmascope.theory.piecewise_affine.regions import Plane, Polygon, require_tiling
from tests.models_zoo import Net
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
    axes = plane(shape, scale=3.0 if len(shape) == 2 else 0.15)
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
    axes = plane(shape, scale=3.0 if len(shape) == 2 else 0.15)
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


def test_a_window_is_cut_where_the_largest_changes_and_each_cut_is_there_once():
    """`max(x, y, 0)` bends along two halves of the axes and half of the diagonal."""
    net = Net(
        lambda m, x: F.max_pool1d(m.three(x)[:, None], 3)[:, 0], three=nn.Linear(2, 3)
    ).double()
    with torch.no_grad():
        net.three.weight.copy_(torch.tensor([[1.0, 0.0], [0.0, 1.0], [0.0, 0.0]]))
        net.three.bias.zero_()
    square = torch.zeros(1, 2, dtype=D), torch.tensor([[1.0, 0.0]]), torch.tensor([[0.0, 1.0]])
    found = partition(net, *square)
    assert found.counts == (3,)
    ends = {frozenset(map(tuple, (cut + 0.0).tolist())) for cut in found.cuts}
    assert ends == {frozenset({(0.0, 0.0), end}) for end in ((0.0, -1.0), (-1.0, 0.0), (1.0, 1.0))}
    assert len(found.cuts) == len(found.by) == 3


def test_outputs_are_those_at_the_centres():
    model, x, _ = built("relu")
    shape = x.shape
    axes = plane(shape)
    found = partition(model, *axes)
    for i in (0, len(found.polygons) // 2):
        point = found.polygons[i].mean(0)
        assert torch.allclose(model(at(point, *axes))[0], found.outputs[i], atol=1e-12)


def test_what_mixes_samples_is_cut_along_lines_only():
    mixing = (
        lambda h: h.relu() - h.mean(0),
        lambda h: h.relu() - h.max(),
        lambda h: h * (h > 0).sum(),
        PIECEWISE["branch"],
    )
    e = torch.eye(4, dtype=D)
    for f in mixing:
        model, x, y = through(f)
        regions_along(model, x, y)
        with pytest.raises(Refusal, match=r"one by one, .*got .*regions_along"):
            partition(model, x, e[:1], e[1:2])


def cut_plane(scale=1.0):
    net = nn.Sequential(nn.Linear(4, 5), nn.ReLU(), nn.Linear(5, 2)).double()
    with torch.no_grad():
        for i, p in enumerate(net.parameters()):
            p.copy_(torch.randn(p.shape, generator=torch.Generator().manual_seed(i), dtype=D))
    e = torch.eye(4, dtype=D)
    x = torch.randn(1, 4, generator=torch.Generator().manual_seed(9), dtype=D)
    return net, x, Plane.through(net, x, scale * e[:1], e[1:2])


def test_points_are_the_centre_and_shares_of_the_axes():
    net, x, found = cut_plane(scale=3.0)
    points = torch.tensor([[0.0, 0.0], [0.5, -1.0]], dtype=D)
    inputs = found.inputs(points)
    assert torch.equal(inputs[0], x[0])
    assert torch.allclose(inputs[1], x[0] + torch.tensor([1.5, -1.0, 0.0, 0.0], dtype=D))
    assert torch.allclose(found.outputs(points), net(inputs).detach())
    assert found.names == ("relu",)


def test_heights_are_those_of_every_sample():
    net, _, found = cut_plane()
    points = torch.tensor([[0.1, 0.2], [-0.7, 0.4], [0.9, 0.9]], dtype=D)
    (entering,) = found.entering(points)
    assert entering.window == 0
    expected = net[0](found.inputs(points)).detach()
    assert torch.allclose(torch.from_numpy(entering.values), expected, atol=1e-12)
    # at the corners of a region they are continued from points inside
    (met,) = found.met([found.square()], 0)
    corners = net[0](found.inputs(torch.from_numpy(met.polygon.corners))).detach()
    assert torch.allclose(torch.from_numpy(met.polygon.values), corners, atol=1e-12)


E = torch.eye(4, dtype=D)


@pytest.mark.usefixtures("as_users_see_it")
@pytest.mark.parametrize(
    ("model", "axes", "says"),
    [
        ({}, (E[:1], torch.ones(1, 3).double()), r"one shape, got \(1, 4\), \(1, 4\), \(1, 3\)"),
        ({}, (E[:1], 2 * E[:1]), "must point in two directions"),
        ({}, (E[:1], -E[:1]), "must point in two directions"),
        ({}, (E[:1], 0 * E[:1]), "must point in two directions"),
        ({"activation": "tanh"}, (E[:1], E[1:2]), "Tanh"),
        ({"depth": 3, "width": 300}, (100 * E[:1], 100 * E[1:2]), "at most 500 regions"),
    ],
)
def test_planes_and_networks_without_regions_are_refused(model, axes, says, monkeypatch):
    monkeypatch.setattr(regions, "REGIONS", 500)
    net = networks.mlp(inputs=4, outputs=2, **model).double()
    with pytest.raises(Refusal, match=says):
        partition(net, torch.ones(1, 4, dtype=D), *axes)


SQUARE = np.array([[0.0, 0], [2, 0], [2, 2], [0, 2]])


def over(*functions):
    return Polygon(SQUARE, np.stack([f(*SQUARE.T) for f in functions], axis=1))


def test_a_line_splits_a_square_and_carries_the_other_functions_along():
    square = over(lambda x, y: x + y - 1, lambda x, y: 3 * x - y)
    low, high = square.split(0)
    assert (low.area, high.area) == (0.5, 3.5)
    for part in (low, high):
        x, y = part.corners.T
        assert part.values[:, 1] == pytest.approx(3 * x - y)
    assert sorted(map(tuple, high.edge_on(0))) == [(0, 1), (1, 0)]


def test_a_line_through_corners_cuts_no_slivers():
    square = over(lambda x, y: x - y)
    low, high = square.split(0)
    assert (low.area, high.area) == (2, 2)
    assert len(low.corners) == len(high.corners) == 3


def test_a_line_outside_or_along_an_edge_splits_nothing():
    for f in (lambda x, y: x + 1, lambda x, y: x, lambda x, y: 0 * x):
        assert over(f).split(0)[0] is None
    assert over(lambda x, y: x - 2).split(0)[1] is None
    assert over(lambda x, y: x).crossed().tolist() == []


def test_the_largest_of_several_functions_wins_and_ties_go_to_the_first():
    square = over(
        lambda x, y: x,
        lambda x, y: 2 - x,
        lambda x, y: x,
        lambda x, y: 0 * x,
        lambda x, y: 1 + 0 * x,
    )
    parts = list(square.won_by(np.arange(5)))
    assert [p.area for p in parts] == [2, 2]  # the third ties the first, the others never lead
    assert sum(p.area for p in square.won_by(np.array([3, 4, 0]))) == 4


def test_a_function_that_is_largest_on_an_edge_only_wins_no_part():
    """`x` and `-x` on the triangle `x ≥ 0`: they tie on one edge."""
    corners = np.array([[0.0, 0.0], [1.0, 0.0], [0.0, 1.0]])
    triangle = Polygon(corners, np.column_stack([corners[:, 0], -corners[:, 0]]))
    (part,) = triangle.won_by(np.array([0, 1]))
    assert part.area == pytest.approx(0.5)
    # x and 1/2 - x share it along x = 1/4: (3/4)² / 2 is left to the right
    values = np.column_stack([corners[:, 0], 0.5 - corners[:, 0]])
    areas = [p.area for p in Polygon(corners, values).won_by(np.array([0, 1]))]
    assert areas == pytest.approx([9 / 32, 7 / 32])


@pytest.mark.parametrize("kind", [k for k in NETWORKS if k != "linear"])
def test_beyond_the_nearest_boundary_something_changes(kind):
    """Along the segment, the pattern is another one in every region and one within each."""
    model, x, y = built(kind)
    y = y if x.ndim == 2 else x + 0.3 * (y - x)  # images meet many
    found = regions_along(model, x, y)
    assert found.count == len(found.at) + 1
    assert found.count > 1
    if found.at:
        assert found.at[0] * float((y - x).norm()) >= region_distance(model, x) * (1 - 1e-9)
    ends = [0.0, *found.at, 1.0]
    before = None
    for low, high in pairwise(ends[:5]):
        if high - low < 1e-8:
            continue
        first, last = (local_affine(model, x + t * (y - x)) for t in _within(low, high))
        assert all(torch.equal(a, b) for a, b in zip(first.regions, last.regions, strict=True))
        if before is not None:
            same = [torch.equal(a, b) for a, b in zip(before, first.regions, strict=True)]
            assert not all(same)
        before = last.regions


def _within(low, high):
    return low + 0.01 * (high - low), high - 0.01 * (high - low)


def test_the_regions_of_one_layer_are_counted_by_hand():
    model = nn.Sequential(nn.Linear(1, 3), nn.ReLU()).double()
    with torch.no_grad():
        model[0].weight.fill_(1)
        model[0].bias.copy_(torch.tensor([-0.25, -0.5, -2.0]))
    found = regions_along(model, torch.zeros(1, 1, dtype=D), torch.ones(1, 1, dtype=D))
    assert found.count == 3
    assert found.at == pytest.approx((0.25, 0.5))
    assert region_distance(model, torch.zeros(1, 1, dtype=D)) == pytest.approx(0.25)


def test_a_linear_network_has_one_region():
    model, x, y = built("linear")
    assert regions_along(model, x, y).count == 1
    assert region_distance(model, x) == float("inf")


def test_casts_inside_are_refused_where_regions_must_be_told_apart():
    model, x, y = through(lambda h: h.float().relu().double())
    assert torch.isfinite(local_affine(model, x).offset).all()
    with pytest.raises(Refusal, match=r"computed in float64.*got numbers rounded to 1.2e-07"):
        regions_along(model, x, y)


def cut():
    """The plane of one unit that bends along `s = 0.25`."""
    net = nn.Sequential(nn.Linear(2, 1), nn.ReLU(), nn.Linear(1, 1)).double()
    with torch.no_grad():
        net[0].weight.copy_(torch.tensor([[1.0, 0.0]]))
        net[0].bias.fill_(-0.25)
        net[2].weight.fill_(1.0)
    e = torch.eye(2, dtype=D)
    return Plane.through(net, torch.zeros(1, 2, dtype=D), e[:1], e[1:])


def box(left, right, low=-1.0, high=1.0):
    corners = [[left, low], [right, low], [right, high], [left, high]]
    return Polygon(np.array(corners), np.zeros((4, 0)))


def test_the_regions_of_a_network_are_taken():
    require_tiling(cut(), [box(-1, 0.25), box(0.25, 1)])
    require_tiling(cut(), [box(-1, 0), box(0, 0.25), box(0.25, 1)])  # cut once more


@pytest.mark.parametrize(
    ("regions", "says"),
    [
        ([box(-1, 0.25)], "polygons of an area of 2.5 in a square of 4"),
        ([box(-1, 0.25), box(0.25, 1), box(0.9, 1)], "polygons of an area of 4.2 in a square of 4"),
        ([box(-1, 0.25), box(-1, -0.25)], "[02] polygons at one point"),
        ([box(-1, 1)], "`relu` on two sides in one polygon"),
        ([box(-1, 0.2), box(0.2, 1)], "1 polygons on which it bends"),
    ],
)
def test_other_polygons_are_refused(regions, says):
    with pytest.raises(Refusal, match=f"evaluated again, got {says}"):
        require_tiling(cut(), regions)
