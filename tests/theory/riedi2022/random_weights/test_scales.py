import math

import pytest
import torch

from sigmascope import linalg
from sigmascope.theory.riedi2022.random_weights import (
    ResidualLayer,
    chance_of_negative,
    chance_of_norm,
    condition_limits,
    weight_scale,
)
from tests.theory.riedi2022.matrices import gaussian


def test_limits():
    assert condition_limits(2) == pytest.approx((1.8028, 1.9719), abs=5e-5)
    assert max(condition_limits(1.2982)[0], condition_limits(1.3441)[1]) < 3
    with pytest.raises(ValueError, match="`r` must be above 1"):
        condition_limits(1.0)


def test_chances_of_exceptions_are_negligible_as_reported():
    assert chance_of_norm(5, 2.0) < 1e-4
    assert chance_of_negative(5, 2.0) < 1e-4
    # P[s_1(K) >= sqrt(8n)], the term that the proof of Theorem 39 needs
    for n in (5, 7):
        bound = linalg.random_matrix.TracyWidom().tail(math.sqrt(2) * n ** (2 / 3))
        assert chance_of_norm(n, 10.0, norm=0.1) < bound < 2e-4


@pytest.mark.parametrize("activation", ["linear", "abs", "relu", "leaky"])
@pytest.mark.parametrize("law", ["concentration", "tracy-widom"])
@pytest.mark.parametrize("n", [4, 30])
def test_the_weight_scale_keeps_its_promise(activation, law, n):
    eta = {"linear": 1.0, "abs": -1.0, "relu": 0.0, "leaky": 0.2}[activation]
    wanted = 2.0 if activation != "leaky" else 8.0
    scale = weight_scale(
        n, condition=wanted, activation=activation, slope=0.2, probability=0.9, law=law
    )
    kept = 0
    for seed in range(200):
        inner, outer = torch.where(gaussian(2, n, seed=seed) > 0, 1.0, eta)
        outer[0] = 1.0
        W = scale.std * gaussian(n, n, seed=seed + 1000)
        found = ResidualLayer.of(W, inner, outer, r=1.0)
        kept += found.condition(found.skipped).value <= wanted
    assert kept >= 0.9 * 200
    # the largest entries that are sure
    W = scale.entry * gaussian(n, n, seed=1).sign()
    assert torch.linalg.matrix_norm(W, 2) <= scale.norm * (1 + 1e-12)


def test_the_weight_scale_is_not_timid():
    """Twice the scale breaks the promise for some sign pattern of the layer after it."""
    scale = weight_scale(30, condition=2.0, activation="linear", law="tracy-widom").std
    tops = torch.linalg.matrix_norm(scale * gaussian(200, 30, 30, seed=1), 2)
    assert 0.9 < (tops <= 1 / 3).double().mean() < 0.99
    assert bool((2 * tops > 1 / 3).all())


@pytest.mark.parametrize(
    ("asked", "says"),
    [
        ({"condition": 1.0}, "`condition` must be above 1 for"),
        ({"condition": 5.0, "activation": "leaky", "slope": 0.1}, "must be above 10 for"),
        ({"condition": 2.0, "probability": 1.0}, "needs width >= 2"),
    ],
)
def test_what_no_scale_can_do_is_refused(asked, says):
    with pytest.raises(ValueError, match=says):
        weight_scale(10, **asked)


def test_the_exact_limit_lies_below_both_bounds():
    for r in (1.5, 2.0, 3.0):
        top, bottom = linalg.random_matrix.shifted_limits(1 / (r * math.sqrt(8)))
        assert top / bottom < min(condition_limits(r))
