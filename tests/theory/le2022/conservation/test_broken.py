from types import SimpleNamespace

import torch
from torch import nn

from sigmascope.core.records import Verdict
from sigmascope.theory.le2022.conservation import broken_balances, endpoint_drifts, invariants


def drifts(*, scaled):
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 2)).double()
    before = {n: p.detach().clone() for n, p in net.named_parameters()}
    after = {n: p * (scaled if n.startswith("0") else 1.0) for n, p in before.items()}
    found = invariants(net, torch.randn(5, 3, dtype=torch.float64))
    return tuple(endpoint_drifts(found, before, after, learning_rate=1e-3, loss_drop=1e-3, steps=1))


def test_a_balance_that_one_layer_alone_has_left_is_found_with_its_size():
    found = broken_balances(drifts(scaled=2.0))
    assert found
    assert {f.name for f in found} == {"balance-broken"}
    assert all(f.evidence[0].estimate.value > 0 for f in found)
    assert broken_balances(drifts(scaled=1.0)) == ()


def test_what_was_seen_to_break_it_is_told_before_what_may_have():
    seen = SimpleNamespace(
        site="a ~ b", drift=1.0, residual=1.0, allowed=0.1, since=7, suspects=("clipping",),
        verdict=Verdict.VIOLATED,
    )  # fmt: skip
    (finding,) = broken_balances([seen])
    assert "clipping" in finding.says
    assert "7" in finding.says
