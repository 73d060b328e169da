import math

import pytest
import torch
from torch import nn

from sigmascope.core.guard import Refusal
from sigmascope.core.records import Verdict
from sigmascope.models import Subject, networks
from sigmascope.theory import THEOREMS, check, check_chain, random_chains, riedi2022

model = nn.Linear(4, 3)
subject = Subject(model, torch.ones(5, 4))


def test_names_are_unique_and_every_theorem_says_what_and_whence():
    assert len({t.name for t in THEOREMS}) == len(THEOREMS)
    for theorem in THEOREMS:
        assert theorem.statement
        assert "20" in theorem.source


SIGNED = {"skip-fall", "activation-leaks"}  # of which the bounded side may be below zero


def told():
    """Of networks and matrices for which many a bound is worth nothing."""
    g = torch.Generator().manual_seed(0)
    x, y = torch.randn(6, 5, generator=g), torch.randn(6, 1, generator=g)
    for activation, depth, scale in (
        ("linear", 2, 1.0), ("linear", 4, 0.3), ("relu", 4, 1.0), ("relu", 8, 0.1), ("relu", 3, 4.0)
    ):  # fmt: skip
        model = networks.mlp(
            inputs=5, outputs=1, depth=depth, width=6, activation=activation, generator=g
        ).double()
        for p in model.parameters():
            p.data.mul_(scale)
        yield from check(Subject(model, x.double(), y.double(), nn.functional.mse_loss))
    for width in (3, 8):
        chain = random_chains.BatchNormChain(width, 0.3, generator=g)
        yield from check_chain(chain.run(200))
    for scale in (0.1, 5.0):
        M = scale * torch.randn(6, 6, generator=g)
        yield from riedi2022.checks(riedi2022.Skip.of(M, 1.0))
        for slope in (0.0, 0.2):
            slopes = torch.tensor([1.0, slope]).repeat(3)
            yield from riedi2022.checks(riedi2022.Activation.of(M, slopes))


def test_what_holds_says_something():
    found = list(told())
    assert {c.theorem for c in found if c.verdict is Verdict.VACUOUS} >= {
        "alignment", "jacobian-rank", "soft-rank-any-scale", "chain-soft-rank", "skip-bottom"
    }  # fmt: skip
    for c in found:
        if c.verdict is Verdict.HOLDS and c.sense == "at least":
            assert c.limit.high > 0 or c.theorem in SIGNED, c
        if c.verdict is Verdict.HOLDS and c.sense == "at most":
            assert c.limit.high < math.inf, c


def test_unknown_names_are_refused():
    with pytest.raises(
        ValueError, match=r"got \['rank-partition'\]. There are: rank-participation"
    ):
        check(subject, only=["rank-partition"])


class Complex(nn.Module):
    """Of whose first weight nothing is said to be conserved."""

    def __init__(self):
        super().__init__()
        self.w = nn.Parameter(torch.ones(4, 3, dtype=torch.cfloat) + torch.eye(4, 3))
        self.out = nn.Linear(3, 2)

    def forward(self, x):
        return self.out((x.to(torch.cfloat) @ self.w).abs())


def test_what_one_theorem_refuses_keeps_no_other_from_being_checked():
    given = Subject(Complex(), torch.eye(4), torch.zeros(4, 2), nn.functional.mse_loss)
    found = [*check(given)]
    assert {c.verdict for c in found if c.theorem == "rank-participation"} == {Verdict.HOLDS}
    (refused,) = [c for c in found if c.theorem == "balance-rate"]
    assert refused.verdict is Verdict.INAPPLICABLE
    assert "complex" in refused.assumptions[0].says
    with pytest.raises(Refusal, match="complex"):
        [*check(given, only=["rank-participation", "balance-rate"])]


def test_where_nothing_can_be_measured_the_reason_is_raised():
    broken = nn.Linear(4, 3)
    broken.weight.data.fill_(math.nan)
    with pytest.raises(Refusal, match="finite"):
        [*check(Subject(broken, torch.ones(5, 4)))]
