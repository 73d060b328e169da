"""Balances between two dense layers, from their weights alone."""

import pytest
import torch
from torch import nn

from sigmascope.theory import le2022


def test_what_is_conserved_is_two_squares_and_their_difference():
    """In-weights (1, 2) and a bias of 2, out-weights (1, 3): 1 + 4 + 4 - 1 - 9 = -1."""
    net = nn.Sequential(nn.Linear(2, 1), nn.ReLU(), nn.Linear(1, 2, bias=False)).double()
    with torch.no_grad():
        net[0].weight.copy_(torch.tensor([[1.0, 2.0]]))
        net[0].bias.fill_(2.0)
        net[2].weight.copy_(torch.tensor([[1.0], [3.0]]))
    (found,) = le2022.conservation.invariants(net, torch.ones(2, 2).double())
    assert abs(found.value(dict(net.named_parameters())).item()) == pytest.approx(1)
    assert le2022.conservation.neuron_balance(
        net[0].weight, net[2].weight, net[0].bias
    ).tolist() == [-1]
    assert le2022.conservation.gram_balance(net[0].weight, net[2].weight, net[0].bias).tolist() == [
        [1]
    ]
