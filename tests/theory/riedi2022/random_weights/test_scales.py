import math

import pytest
import torch

from sigmascope import linalg
from sigmascope.linalg.random_matrix import TracyWidom
from sigmascope.theory.riedi2022.random_weights import (
    ResidualLayer,
    chance_of_negative,
    chance_of_norm,
    condition_limits,
    weight_scale,
    weight_spread,
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
@pytest.mark.slow
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


def test_the_weight_scale_by_hand():
    """Width 100 and κ ≤ 3: a norm of 1/2, and at most `20 + √(2 ln 20)` standard deviations."""
    found = weight_scale(100, condition=3.0, activation="linear")
    assert found.norm == pytest.approx(0.5)
    assert found.entry == pytest.approx(0.005)
    assert found.std == pytest.approx(0.5 / (20 + math.sqrt(2 * math.log(20))))
    leaky = weight_scale(4, condition=8.0, activation="leaky", slope=0.5, probability=0.9)
    assert leaky.norm == pytest.approx(0.6)  # (8/2 - 1) / (8/2 + 1)
    assert leaky.std == pytest.approx(0.6 / (4 + math.sqrt(2 * math.log(10))))
    assert weight_scale(2, condition=3.0, slope=0.5).norm == pytest.approx(0.5)  # no leaks in ReLU
    assert weight_scale(4, condition=3.0, activation="leaky", slope=1.0).norm == pytest.approx(0.5)


def test_the_weight_scale_by_tracy_and_widom():
    """`s₁(K)² ≈ μ + q TW₁` with Johnstone's centre and scale."""
    found = weight_scale(50, condition=3.0, law="tracy-widom")
    centre, scale = johnstone(50)
    top = (0.5 / found.std) ** 2
    assert 1 - TracyWidom().cdf((top - centre) / scale) == pytest.approx(0.05, abs=1e-6)


@pytest.mark.parametrize(
    ("asked", "says"),
    [
        ({"width": 1, "condition": 3.0}, "width >= 2"),
        ({"width": 4, "condition": 3.0, "probability": 0.0}, "probability < 1"),
        ({"width": 4, "condition": 3.0, "activation": "leaky", "slope": 0.0}, "0 < slope"),
        ({"width": 4, "condition": 3.0, "activation": "leaky", "slope": 1.1}, "slope <= 1"),
        ({"width": 4, "condition": 2.0, "activation": "leaky", "slope": 0.5}, "must be above 2"),
    ],
)
def test_scales_outside_their_range_are_refused(asked, says):
    with pytest.raises(ValueError, match=says):
        weight_scale(asked.pop("width"), **asked)


def johnstone(n):
    root = math.sqrt(n - 1) + math.sqrt(n)
    return root**2, root * (1 / math.sqrt(n - 1) + 1 / math.sqrt(n)) ** (1 / 3)


def test_spreads_and_limits_by_hand():
    assert weight_spread(8, 2.0) == pytest.approx(1 / 16)
    assert weight_spread(2, 0.5) == pytest.approx(1 / 2)
    # r = 3: 9 + 3 + 1/2, over 6 and over (3 - 1/√2)²
    first, second = condition_limits(3.0)
    assert first == pytest.approx(math.sqrt(12.5 / 6))
    assert second == pytest.approx(math.sqrt(12.5) / (3 - math.sqrt(0.5)))


@pytest.mark.parametrize("n", [5, 40])
def test_chances_of_exceptions_by_the_tracy_widom_law(n):
    law, (centre, scale) = TracyWidom(), johnstone(n)
    r, norm = 0.6, 1.1
    level = norm**2 * r**2 * 8 * n
    expected = 1 - law.cdf((level - centre) / scale)
    assert 1e-6 < chance_of_norm(n, r, norm=norm) == pytest.approx(expected, rel=1e-6)
    # t = λ₁(K + Kᵀ) ~ √(8n - 4) + √2 (n - 1/2)^(-1/6) TW₁, against r √(8n)
    t = (0.95 * math.sqrt(8 * n) - math.sqrt(8 * n - 4)) * (n - 0.5) ** (1 / 6) / math.sqrt(2)
    assert chance_of_negative(n, 0.95) == pytest.approx(1 - law.cdf(t), rel=1e-6)
