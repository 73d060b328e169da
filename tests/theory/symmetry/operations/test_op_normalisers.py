import pytest
import torch
from torch import nn
from torch.nn import functional as F

from sigmascope.theory.symmetry import symmetries
from tests.models_zoo import Net


def test_zero_channels_of_a_shortcut_belong_to_no_unit():
    def forward(net, x):
        h = net.a(x)
        return net.c(F.pad(h, (0, 3)) + net.b(h))

    net = Net(forward, a=nn.Linear(4, 5), b=nn.Linear(5, 8), c=nn.Linear(8, 2))
    sizes = sorted(f.units for f in symmetries(net, torch.randn(3, 4)).scalings)
    assert sizes == [3, 5]


@pytest.mark.parametrize("pool", [nn.AvgPool2d(2), nn.AvgPool2d((4, 1)), nn.AdaptiveAvgPool2d(2)])
def test_averages_over_both_axes_of_an_image_keep_channels_apart(pool):
    net = nn.Sequential(nn.Conv2d(1, 3, 3, padding=1), pool, nn.Flatten(), nn.Linear(12, 2))
    (family,) = symmetries(net, torch.randn(2, 1, 4, 4)).scalings
    columns = next(p for p in family.parts if p.side == "columns")
    assert columns.index.tolist() == [list(range(4 * c, 4 * c + 4)) for c in range(3)]
    assert bool(family.mask.all())
