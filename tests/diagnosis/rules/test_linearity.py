"""Layers with nothing between them."""

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from sigmascope import survey
from sigmascope.diagnosis.rules.linearity import linear_network

X = torch.rand(32, 6, generator=torch.Generator().manual_seed(0))  # all positive
Y = X.sum(1, keepdim=True)


def found(*layers, batch=X):
    torch.manual_seed(0)
    model = nn.Sequential(*layers)
    profile = survey.profile(model, batch, targets=Y, loss=F.mse_loss, views=["setup"])
    return [*linear_network(profile)]


@pytest.mark.parametrize("end", [[], [nn.Sigmoid()]])
@pytest.mark.parametrize("between", [[], [nn.Dropout(0.5)], [nn.BatchNorm1d(8)]])
def test_a_network_without_activations_is_one_linear_map(between, end):
    (f,) = found(nn.Linear(6, 8), *between, nn.Linear(8, 1), *end)
    assert (f.name, f.severity) == ("linear-network", "note")
    assert "All 2 layers" in f.says


@pytest.mark.parametrize("act", [nn.ReLU(), nn.GELU(), nn.Tanh(), nn.LeakyReLU(0.99)])
def test_with_one_it_is_not(act):
    """Even where units that are never off make it one on these samples."""
    first = nn.Linear(6, 8)
    model = [first, act, nn.Linear(8, 1)]
    with torch.no_grad():
        first.weight.abs_()
        first.bias.fill_(1.0)
    assert found(*model) == []


def test_convolutions_count():
    images = torch.randn(32, 1, 4, 4, generator=torch.Generator().manual_seed(0))
    layers = [nn.Conv2d(1, 2, 3), nn.AvgPool2d(2), nn.Flatten(), nn.Linear(2, 1)]
    assert [f.name for f in found(*layers, batch=images)] == ["linear-network"]
    layers.insert(2, nn.MaxPool2d(1, 1))
    assert found(*layers, batch=images) == []


def test_one_layer_is_what_it_is():
    assert found(nn.Linear(6, 1)) == []
