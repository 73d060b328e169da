"""Balances measured once, over training, and between two states."""

import torch
from torch import nn
from torch.nn import functional as F

from sigmascope import survey


def network(seed=0, act=nn.ReLU):
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(seed)
        return nn.Sequential(nn.Linear(6, 8), act(), nn.Linear(8, 7), nn.Linear(7, 3))


def data(seed=0):
    g = torch.Generator().manual_seed(seed)
    return torch.randn(20, 6, generator=g), torch.randint(3, (20,), generator=g)


def test_the_view_is_read_on_request():
    x, y = data()
    net = network()
    found = survey.profile(net, x, targets=y, loss=F.cross_entropy, views=["balances"])
    assert {r.quantity for r in found.readings} == {
        "imbalance",
        "operator-to-Frobenius ratio",
        "alignment",
    }
    assert {c.theorem for c in found.checks} >= {"balance-rate", "alignment"}
    assert "balances" not in {r.view for r in survey.profile(net, x).readings}
    ratio = found.series("operator-to-Frobenius ratio")[0]
    s = torch.linalg.svdvals(net[0].weight.detach().double())
    assert ratio.estimate.low <= float(s[0] ** 2 / s.square().sum()) <= ratio.estimate.high
