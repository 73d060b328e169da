"""Balances measured once, over training, and between two states."""

import torch
from torch import nn
from torch.nn import functional as F

from sigmascope import survey
from tests.theory.test_comparing import data, network


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


def test_a_weight_that_is_one_row_can_have_no_rank_above_one():
    net = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 1))
    found = survey.profile(net, torch.ones(2, 3), views=["balances"])
    assert [r.site for r in found.series("operator-to-Frobenius ratio")] == ["0.weight"]
