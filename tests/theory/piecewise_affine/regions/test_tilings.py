import numpy as np
import pytest
import torch
from affine_zoo import D
from torch import nn

from sigmascope.gate import Refusal
from sigmascope.theory.piecewise_affine.regions import Plane, Polygon, require_tiling


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
