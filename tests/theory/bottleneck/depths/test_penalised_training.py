"""Training with a penalty."""

import pytest
import torch
from torch import nn

from sigmascope.gate import Refusal
from sigmascope.theory.bottleneck import settle


def data(count=60):
    g = torch.Generator().manual_seed(0)
    x = torch.randn(count, 3, generator=g)
    return x, x @ torch.randn(3, 2, generator=g)


def net():
    model = nn.Linear(3, 2)
    with torch.no_grad():
        model.weight.fill_(0.1)
        model.bias.zero_()
    return model


def test_it_settles_at_the_ridge_solution():
    x, y = data()
    model = settle(net(), x, y, ridge=1e-2, steps=1500, rate=3e-2)
    one = torch.cat([x, torch.ones(60, 1)], dim=1).double()
    A = one.mT @ one / (60 * 2) + 1e-2 * torch.eye(4)  # the mean is over samples and outputs
    exact = torch.linalg.solve(A, one.mT @ y.double() / (60 * 2)).mT
    found = torch.cat([model.weight, model.bias[:, None]], dim=1).detach().double()
    assert torch.allclose(found, exact, atol=1e-4)


def test_every_sample_is_used_once_a_pass():
    x, y = data(8)
    seen = []

    class Spy(nn.Linear):
        def forward(self, input):
            seen.append(input.detach().clone())
            return super().forward(input)

    settle(Spy(3, 2), x, y, steps=2, batch_size=4, generator=torch.Generator().manual_seed(1))
    assert sorted(torch.cat(seen).tolist()) == sorted(x.tolist())


def test_frozen_parameters_stay():
    x, y = data()
    model = net()
    model.bias.requires_grad_(False)
    settle(model, x, y, steps=5)
    assert torch.equal(model.bias, torch.zeros(2))


@pytest.mark.usefixtures("as_users_see_it")
def test_refusals():
    x, y = data()
    with pytest.raises(Refusal, match="one row for each sample"):
        settle(net(), x, y[:3])
    with pytest.raises(Refusal, match="must stay finite"):
        settle(net(), x * 1e30, y, steps=3)
