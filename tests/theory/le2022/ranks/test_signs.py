"""Signs of weights and sides of activations, look by look."""

import pytest
import torch
from torch import nn

from sigmascope.theory import le2022


def test_signs_and_patterns_are_followed():
    net = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 2))
    x = torch.randn(5, 3, generator=torch.Generator().manual_seed(0))
    record = le2022.SignRecord()
    first = record.look(net, x, step=0)
    assert set(first) == {"0.weight", "2.weight", "relu #1"}
    assert {s.changed for s in first.values()} == {0}
    with torch.no_grad():
        net[0].weight[0] *= -1
        net[0].bias[0] *= -1
    second = record.look(net, x, step=10)
    assert second["0.weight"] == le2022.Stability(0.25, 0.25, 10)
    assert second["relu #1"].changed == pytest.approx(0.25)
    assert second["2.weight"] == le2022.Stability(0, 0, 0)
    third = record.look(net, x, step=20)
    assert third["0.weight"] == le2022.Stability(0.25, 0, 10)
