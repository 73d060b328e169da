"""Balances in words."""

from dataclasses import replace

from torch import nn
from torch.nn import functional as F

from sigmascope.theory import le2022
from sigmascope.theory.le2022.conservation.invariants import formula, reason
from tests.theory.le2022.conservation.two_layers import X, Y, balances, dense


def test_formulas_show_every_sign():
    (found,) = balances(dense(4, 5, 3))
    assert formula(found).startswith("W₂ᵀW₂ - W₁W₁ᵀ - bbᵀ with ")
    parts = tuple(replace(p, factor=-p.factor) for p in found.what.parts)
    turned = replace(found, what=replace(found.what, parts=parts))
    assert formula(turned).startswith("-W₂ᵀW₂ + W₁W₁ᵀ + bbᵀ with ")


def test_reasons_name_what_stands_between():
    (linear,) = balances(dense(4, 5, 3))
    assert (
        reason(linear) == "only linear maps between: any mixing of units passes to the next weights"
    )
    bent = [reason(i) for i in balances(dense(4, 5, 3, act=nn.ReLU))]
    assert all(said.startswith("an activation with two slopes between: ") for said in bent)
    normed = nn.Sequential(nn.Linear(4, 5), nn.BatchNorm1d(5), nn.ReLU(), nn.Linear(5, 3)).double()
    said = {i.kind: reason(i) for i in balances(normed)}
    assert said["norm"] == "a common factor is divided out again; up to the eps of a normaliser"
    assert said["neuron"] == (
        "an activation with two slopes and a gain of each unit between: a factor of each unit "
        "passes to the next weights"
    )
    sums = le2022.conservation.invariants(dense(4, 3), X, targets=Y, loss=F.cross_entropy)
    assert {reason(i) for i in sums} == {
        "what is added along these axes is subtracted again by a softmax or a mean"
    }
