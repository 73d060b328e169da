import torch
from torch import nn

from sigmascope.theory.symmetry import symmetries


def test_channels_flattened_with_their_positions_are_one_unit_each():
    net = nn.Sequential(nn.Conv2d(1, 3, 2), nn.Flatten(), nn.Linear(3 * 9, 2))
    (family,) = symmetries(net, torch.randn(2, 1, 4, 4)).scalings
    columns = next(p for p in family.parts if p.side == "columns")
    assert columns.index.tolist() == [list(range(9 * c, 9 * c + 9)) for c in range(3)]
    assert columns.slabs(net[2].weight).shape == (3, 18)
