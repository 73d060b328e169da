"""The rate of a balance: zero up to rounding, and the eps of normalisers."""

from dataclasses import replace

import pytest
import torch
from torch import nn

from sigmascope.probes import Subject
from sigmascope.records import Verdict
from sigmascope.theory import le2022
from tests.theory.le2022.networks import KINDS


def test_rates_hold_and_have_teeth_and_are_silent():
    model, batch = KINDS["pre_norm_block"](0)
    theorems = list(le2022.conservation.BalanceRate.facts(Subject(model, batch)))
    assert theorems
    assert {t.check().verdict for t in theorems} == {Verdict.HOLDS}
    limit = theorems[0].invariant.tolerance
    for factor, verdict in ((1 + 1e-6, Verdict.VIOLATED), (1 - 1e-6, Verdict.HOLDS)):
        moved = replace(theorems[0].invariant, rate=factor * limit)
        assert replace(theorems[0], invariant=moved).check().verdict == verdict
    frozen = nn.Linear(3, 2).requires_grad_(False)
    assert list(le2022.conservation.BalanceRate.facts(Subject(frozen, torch.ones(2, 3)))) == []


def test_rates_within_eps_are_consistent():
    net = nn.Sequential(nn.Linear(4, 6), nn.BatchNorm1d(6, eps=1e-2), nn.Linear(6, 2)).double()
    g = torch.Generator().manual_seed(0)
    x = torch.randn(9, 4, generator=g).double()
    verdicts = {
        t.site: t.check().verdict for t in le2022.conservation.BalanceRate.facts(Subject(net, x))
    }
    assert verdicts["0.weight ~ 0.bias"] == Verdict.CONSISTENT


@pytest.mark.parametrize("factor", [0.5, 2.0, -1.0])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("where", ["0.weight", "2.weight", "0.bias", "2"])
def test_a_hook_that_scales_gradients_is_a_contradiction(where, dtype, factor):
    """Also where rounding is measured on parameters that stand in for those with the hook."""
    torch.manual_seed(0)
    net = nn.Sequential(nn.Linear(6, 9), nn.ReLU(), nn.Linear(9, 3)).to(dtype)
    if where == "2":  # of what goes in
        net[2].register_full_backward_hook(lambda m, own, out: (factor * own[0],))
    else:
        net.get_parameter(where).register_hook(lambda g: factor * g)
    x, y = torch.randn(12, 6, dtype=dtype), torch.randint(3, (12,))
    subject = Subject(net, x, y, nn.functional.cross_entropy)
    verdicts = {t.check().verdict for t in le2022.conservation.BalanceRate.facts(subject)}
    assert Verdict.VIOLATED in verdicts


def test_without_a_gradient_nothing_is_said():
    net = nn.Sequential(nn.Linear(4, 5), nn.ReLU(), nn.Linear(5, 3), nn.ReLU(), nn.Linear(3, 2))
    with torch.no_grad():  # every unit of the first layer is off, and nothing reaches it
        net[0].bias.fill_(-100)
    draw = torch.Generator().manual_seed(0)
    subject = Subject(
        net,
        torch.randn(6, 4, generator=draw),
        targets=torch.randint(2, (6,), generator=draw),
        loss=nn.functional.cross_entropy,
    )
    found = {t.site: t.check() for t in le2022.conservation.BalanceRate.facts(subject)}
    assert found["2.weight ~ 0.weight ~ 0.bias"].verdict == Verdict.VACUOUS
    assert found["4.bias"].verdict == Verdict.HOLDS  # which has a gradient, whose sum is 0
