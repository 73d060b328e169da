import pytest
import torch
from affine_zoo import PIECEWISE, D, through
from torch import nn

from sigmascope.gate import Refusal
from sigmascope.theory.piecewise_affine import (
    partition,
    regions_along,
)
from sigmascope.theory.piecewise_affine.regions import Plane


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


def plane(scale=1.0):
    net = nn.Sequential(nn.Linear(4, 5), nn.ReLU(), nn.Linear(5, 2)).double()
    with torch.no_grad():
        for i, p in enumerate(net.parameters()):
            p.copy_(torch.randn(p.shape, generator=torch.Generator().manual_seed(i), dtype=D))
    e = torch.eye(4, dtype=D)
    x = torch.randn(1, 4, generator=torch.Generator().manual_seed(9), dtype=D)
    return net, x, Plane.through(net, x, scale * e[:1], e[1:2])


def test_points_are_the_centre_and_shares_of_the_axes():
    net, x, found = plane(scale=3.0)
    points = torch.tensor([[0.0, 0.0], [0.5, -1.0]], dtype=D)
    inputs = found.inputs(points)
    assert torch.equal(inputs[0], x[0])
    assert torch.allclose(inputs[1], x[0] + torch.tensor([1.5, -1.0, 0.0, 0.0], dtype=D))
    assert torch.allclose(found.outputs(points), net(inputs).detach())
    assert found.names == ("relu",)


def test_heights_are_those_of_every_sample():
    net, _, found = plane()
    points = torch.tensor([[0.1, 0.2], [-0.7, 0.4], [0.9, 0.9]], dtype=D)
    (entering,) = found.entering(points)
    assert entering.window == 0
    expected = net[0](found.inputs(points)).detach()
    assert torch.allclose(torch.from_numpy(entering.values), expected, atol=1e-12)
    # at the corners of a region they are continued from points inside
    (met,) = found.met([found.square()], 0)
    corners = net[0](found.inputs(torch.from_numpy(met.polygon.corners))).detach()
    assert torch.allclose(torch.from_numpy(met.polygon.values), corners, atol=1e-12)


@pytest.mark.usefixtures("as_users_see_it")
def test_axes_span_a_plane():
    net, x, _ = plane()
    e = torch.eye(4, dtype=D)
    with pytest.raises(Refusal, match=r"must have one shape, got \(1, 4\), \(1, 4\), \(1, 3\)"):
        partition(net, x, e[:1], torch.ones(1, 3, dtype=D))
    for other in (2 * e[:1], -e[:1], torch.zeros(1, 4, dtype=D)):
        with pytest.raises(Refusal, match="must point in two directions"):
            partition(net, x, e[:1], other)
