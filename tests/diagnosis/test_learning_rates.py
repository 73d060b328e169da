"""Rates by layer are stable where one rate for all is not, and faster than the one that is."""

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from sigmascope import networks
from sigmascope.diagnosis import layer_rates
from sigmascope.gate import Refusal


def task(scale=1.0):
    g = torch.Generator().manual_seed(0)
    x = torch.randn(80, 6, generator=g, dtype=torch.float64)
    model = networks.mlp(inputs=6, outputs=2, depth=2, width=8, generator=g).double()
    model.hidden[0].linear.weight.data.mul_(scale)
    return model, x, (x @ torch.randn(6, 2, generator=g, dtype=torch.float64)).tanh()


def losses(groups, model, x, y, steps=60):
    by, seen = torch.optim.SGD(groups, lr=1.0), []
    for _ in range(steps):
        by.zero_grad()
        loss = F.mse_loss(model(x), y)
        loss.backward()
        by.step()
        seen.append(loss.item())
    return seen


@pytest.mark.parametrize("scale", [0.1, 1.0, 10.0])
def test_the_loss_falls(scale):
    model, x, y = task(scale)
    groups = layer_rates(model, x, targets=y, loss=F.mse_loss)
    assert [g["name"] for g in groups] == ["hidden.0.linear", "hidden.1.linear", "readout"]
    seen = losses(groups, model, x, y)
    assert max(seen) == seen[0]
    assert seen[-1] < 0.3 * seen[0]


@pytest.mark.parametrize("scale", [0.1, 1.0, 10.0])
def test_the_largest_safe_share_goes_down_at_first(scale):
    model, x, y = task(scale)
    seen = losses(layer_rates(model, x, targets=y, loss=F.mse_loss, share=1.0), model, x, y, 5)
    assert seen == sorted(seen, reverse=True)


def test_uneven_layers_learn_faster_than_at_one_safe_rate():
    """Large first weights make the later layers bend far more than the first."""
    end = []
    for one in (False, True):
        model, x, y = task(10.0)
        groups = layer_rates(model, x, targets=y, loss=F.mse_loss)
        if one:
            for g in groups:
                g["lr"] = min(h["lr"] for h in layer_rates(model, x, targets=y, loss=F.mse_loss))
        end.append(losses(groups, model, x, y)[-1])
    assert end[0] < 0.8 * end[1]


def test_what_has_no_curvature_gets_the_smallest_rate():
    g = torch.Generator().manual_seed(0)
    x = torch.randn(40, 6, generator=g)
    model = nn.Sequential(nn.Linear(6, 8), nn.BatchNorm1d(8), nn.ReLU(), nn.Linear(8, 2))
    groups = layer_rates(model, x)
    assert groups[-1]["name"] == "(rest)"
    assert groups[-1]["lr"] == min(g["lr"] for g in groups)
    assert sum(len(g["params"]) for g in groups) == len(list(model.parameters()))


def test_a_useless_share_is_refused():
    model, x, y = task()
    with pytest.raises(Refusal, match="`share` above 0"):
        layer_rates(model, x, targets=y, loss=F.mse_loss, share=0.0)
