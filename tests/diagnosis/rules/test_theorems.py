"""Balances have findings where they are broken, and none where all is well."""

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from sigmascope import sources, survey
from sigmascope.diagnosis import judge
from sigmascope.diagnosis.rules.theorems import overestimated_rank
from sigmascope.models import networks
from tests.diagnosis.readings import reading, said, series
from tests.diagnosis.rules.networks import found
from tests.theory.le2022.conservation.wrong_backward import Wrong


@pytest.mark.parametrize(("used", "speaks"), [(4.0, True), (5.0, False)])
def test_when_a_rank_is_more_than_is_used(used, speaks):
    ranks = series("representation rank", 2.0, 7.0, 5.0, 6.0)
    inner = reading("inner dimension", used, view="bottleneck")
    assert (said(overestimated_rank, *ranks, inner) != {}) is speaks
    assert said(overestimated_rank, *ranks[:3], inner) == {}


def test_a_network_that_passes_more_than_it_uses():
    """The function reads two of the dimensions that wide linear layers pass on."""
    g = torch.Generator().manual_seed(0)
    x = torch.randn(32, 8, generator=g)
    layers = [nn.Linear(8, 8, bias=False) for _ in range(4)]
    for layer in layers:
        nn.init.eye_(layer.weight)
    last = nn.Linear(8, 2, bias=False)
    nn.init.eye_(last.weight)
    model = nn.Sequential(*layers, last)
    measured = survey.profile(model, x, views=["bottleneck"])
    names = [f.name for f in judge(measured)]
    assert names == ["rank-overestimated"]
    for layer in layers:
        layer.weight.data[2:] = 0
    assert "rank-overestimated" not in [
        f.name for f in judge(survey.profile(model, x, views=["bottleneck"]))
    ]


def test_ill_conditioned_layers(digits):
    g = torch.Generator().manual_seed(0)
    x = torch.logspace(-6, 0, 6) * torch.randn(100, 6, generator=g)
    data = sources.Data(x, digits.targets[:100], "stretched", 10)
    model = networks.mlp(inputs=6, outputs=10, depth=1, width=8, generator=g).double()
    one = found(model, data, views=["conditioning"])["ill-conditioned-layer"]
    assert one.site == "hidden.0.linear"
    assert "most of it is the data factor" in one.says
    even = sources.Data(x / x.std(0), data.targets, "even", 10)
    assert found(model, even, views=["conditioning"]) == {}


def balanced(model, x):
    measured = survey.profile(model, x, views=["balances"])
    return {f.name: f for f in judge(measured)}


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
    assert balanced(net, torch.randn(9, 6)) == {}


def test_layers_of_rank_one_are_noted():
    names = balanced(linear(rank_one(unit(6, 0), unit(5, 1)), torch.randn(4, 6)), torch.ones(2, 5))
    assert names["rank-one-layer"].site == "0.weight"
    assert "one direction holds 99" in names["rank-one-layer"].says


def test_linear_neighbours_that_do_not_meet_are_a_warning():
    below, above = rank_one(unit(6, 0), unit(5, 1)), rank_one(unit(4, 2), unit(6, 3))
    names = balanced(linear(below, above), torch.ones(2, 5))
    assert names["unaligned-layers"].severity == "warning"
    assert names["unaligned-layers"].site == "0.weight ~ 1.weight"
    meeting = linear(below, rank_one(unit(4, 2), unit(6, 0)))
    assert "unaligned-layers" not in balanced(meeting, torch.ones(2, 5))


class Custom(nn.Module):
    def __init__(self, activation):
        super().__init__()
        self.a, self.b = nn.Linear(5, 6), nn.Linear(6, 2)
        self.activation = activation

    def forward(self, x):
        return self.b(self.activation(self.a(x)))


def test_a_wrong_backward_is_an_error():
    x = torch.randn(9, 5)
    assert balanced(Custom(Wrong.apply), x)["wrong-backward"].severity == "error"
    assert "gradcheck" in balanced(Custom(Wrong.apply), x)["wrong-backward"].remedies[0]
    assert balanced(Custom(F.relu), x) == {}
