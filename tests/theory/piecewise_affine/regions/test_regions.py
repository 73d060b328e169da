from itertools import pairwise

import pytest
import torch
from affine_zoo import (
    NETWORKS,
    D,
    built,
    through,
)
from torch import nn

from sigmascope.gate import Refusal
from sigmascope.theory.piecewise_affine import (
    local_affine,
    region_distance,
    regions_along,
)


@pytest.mark.parametrize("kind", [k for k in NETWORKS if k != "linear"])
def test_beyond_the_nearest_boundary_something_changes(kind):
    """Along the segment, the pattern is another one in every region and one within each."""
    model, x, y = built(kind)
    found = regions_along(model, x, y)
    assert found.count == len(found.at) + 1
    assert found.count > 1
    if found.at:
        assert found.at[0] * float((y - x).norm()) >= region_distance(model, x) * (1 - 1e-9)
    ends = [0.0, *found.at, 1.0]
    before = None
    for low, high in pairwise(ends[:13]):
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
