"""Balances have findings where they are broken, and none where all is well."""

import torch
from torch import nn
from torch.nn import functional as F

from sigmascope import survey
from sigmascope.diagnosis.rules import diagnose
from tests.theory.le2022.conservation.wrong_backward import Wrong


def found(model, x):
    measured = survey.profile(model, x, views=["balances"])
    return {f.name: f for f in diagnose(measured)}


def linear(*weights):
    net = nn.Sequential(*(nn.Linear(w.shape[1], w.shape[0], bias=False) for w in weights))
    with torch.no_grad():
        for layer, w in zip(net, weights, strict=True):
            layer.weight.copy_(w)
    return net.double()


def rank_one(u, v, noise=0.01):
    g = torch.Generator().manual_seed(0)
    return torch.outer(u, v) + noise * torch.randn(len(u), len(v), generator=g).double()


def unit(n, k):
    return torch.eye(n, dtype=torch.float64)[k]


def test_healthy_networks_have_none():
    net = nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 7), nn.Linear(7, 3))
    assert found(net, torch.randn(9, 6)) == {}


def test_layers_of_rank_one_are_noted():
    names = found(linear(rank_one(unit(6, 0), unit(5, 1)), torch.randn(4, 6)), torch.ones(2, 5))
    assert names["rank-one-layer"].site == "0.weight"
    assert "one direction holds 99" in names["rank-one-layer"].says


def test_linear_neighbours_that_do_not_meet_are_a_warning():
    below, above = rank_one(unit(6, 0), unit(5, 1)), rank_one(unit(4, 2), unit(6, 3))
    names = found(linear(below, above), torch.ones(2, 5))
    assert names["unaligned-layers"].severity == "warning"
    assert names["unaligned-layers"].site == "0.weight ~ 1.weight"
    meeting = linear(below, rank_one(unit(4, 2), unit(6, 0)))
    assert "unaligned-layers" not in found(meeting, torch.ones(2, 5))


class Custom(nn.Module):
    def __init__(self, activation):
        super().__init__()
        self.a, self.b = nn.Linear(5, 6), nn.Linear(6, 2)
        self.activation = activation

    def forward(self, x):
        return self.b(self.activation(self.a(x)))


def test_a_wrong_backward_is_an_error():
    x = torch.randn(9, 5)
    assert found(Custom(Wrong.apply), x)["wrong-backward"].severity == "error"
    assert "gradcheck" in found(Custom(Wrong.apply), x)["wrong-backward"].remedies[0]
    assert found(Custom(F.relu), x) == {}
