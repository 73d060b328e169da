import torch
from torch import nn

from sigmascope.theory.symmetry import symmetries


def test_weights_that_are_not_trained_are_constants():
    net = nn.Sequential(nn.Linear(4, 5), nn.Linear(5, 3), nn.Linear(3, 2))
    assert len(symmetries(net, torch.randn(2, 4)).scalings) == 2
    net[1].requires_grad_(False)
    assert symmetries(net, torch.randn(2, 4)).scalings == ()
    net[1].requires_grad_(True)
    net[0].requires_grad_(False)
    (family,) = symmetries(net, torch.randn(2, 4)).scalings
    assert {p.tensor for p in family.parts} == {"1.weight", "1.bias", "2.weight"}
