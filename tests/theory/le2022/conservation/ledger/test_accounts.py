"""What a step makes of a balance, by the exact identity."""

import pytest
import torch
from torch.nn import functional as F

from sigmascope.theory import le2022
from tests.theory.le2022.conservation.two_layers import X, Y, balances, dense


@pytest.mark.parametrize("options", [
    {"momentum": 0.8, "dampening": 0.3, "weight_decay": 0.05},
    {"momentum": 0.8, "weight_decay": 0.05},
    {"momentum": 0.8, "weight_decay": 0.05, "nesterov": True},
    {"weight_decay": 0.05},
])  # fmt: skip
def test_dampened_and_decayed_steps_are_exact_from_the_first(options):
    net = dense(4, 5, 3)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1, **options)
    with le2022.conservation.Ledger(net, balances(net)).watching(optimizer) as ledger:
        for _ in range(6):
            optimizer.zero_grad()
            F.cross_entropy(net(X), Y).backward()
            optimizer.step()
    for drift in ledger.drifts():
        assert float((drift.now - drift.start - drift.expected).abs().max()) < 1e-13
        assert drift.drift > 1e-4
        assert (drift.suspects, drift.since) == ((), None)
