import math
from dataclasses import replace

import pytest
import torch

from sigmascope import linalg
from sigmascope.theory import Verdict
from sigmascope.theory.riedi2022 import (
    OF_RESIDUAL_LAYERS,
    EdelmanLaw,
    ResidualLayer,
    Skip,
    chance_of_negative,
    chance_of_norm,
    checks,
    condition_limits,
    skip_condition_bounds,
    weight_scale,
    weight_spread,
)
from tests.theory.riedi2022.matrices import gaussian

FINE = {Verdict.HOLDS, Verdict.CONSISTENT}


def layer(*, n=7, r=16.2, before=1, after=0, slope=0.0, seed=0):
    W = weight_spread(n, r) * gaussian(n, n, seed=seed)
    places = (gaussian(n, seed=seed + k).argsort() for k in (10_000, 20_000))
    inner, outer = (
        torch.where(place < k, slope, 1.0) for place, k in zip(places, (before, after), strict=True)
    )
    return ResidualLayer.of(W, inner, outer, r=r)


# table 6.5: n, m, m~, r, mean condition number, mean of the sharper bound
@pytest.mark.parametrize(
    ("n", "after", "before", "r", "kappa", "sharper"),
    [
        (7, 1, 0, 16.2, 1.0447, 1.0778),
        (7, 2, 2, 26.7, 1.0199, 1.0465),
        (16, 4, 8, 52.2, 1.0110, 1.0253),
        (16, 8, 8, 64.0, 1.0067, 1.0206),
    ],
)
def test_table_6_5(n, after, before, r, kappa, sharper):
    measured, bounds = [], []
    for seed in range(300):
        found = layer(n=n, r=r, before=before, after=after, seed=seed)
        measured.append(found.condition(found.skipped).value)
        top = found.weight.sigma[0].item()
        bounds.append((1 + top) / (1 - top))
        for check in checks(found):
            assert check.verdict is not Verdict.VIOLATED, check
    for values, known in ((measured, kappa), (bounds, sharper)):
        spread = torch.tensor(values)
        error = spread.std().item() / math.sqrt(len(values))
        assert spread.mean().item() == pytest.approx(known, abs=3 * error + 5e-5)


SPEAKS = {
    "residual-relu": {"r": 20.0},
    "residual-relu-norm": {"r": 20.0},
    "residual-everywhere": {"r": 30.0},
    "residual-sure": {"r": 3.0},
    "residual-improves": {"r": 3.0, "slope": -1.0},
}


@pytest.mark.parametrize("theorem", OF_RESIDUAL_LAYERS, ids=lambda t: t.name)
def test_they_hold_and_have_teeth(theorem):
    right = layer(**({"after": 1} | SPEAKS[theorem.name]))
    assert theorem(right).check().verdict in FINE
    tilt = torch.logspace(4, 0, right.n).double()
    s = right.skipped
    tilted = replace(s, sigma=tilt * s.sigma, low=tilt * s.low, high=tilt * s.high)
    assert theorem(replace(right, skipped=tilted)).check().verdict is Verdict.VIOLATED


@pytest.mark.parametrize("theorem", OF_RESIDUAL_LAYERS, ids=lambda t: t.name)
def test_large_weights_are_declined(theorem):
    slope = SPEAKS[theorem.name].get("slope", 0.0)
    found = theorem(layer(r=0.3, after=1, slope=slope)).check()
    assert found.verdict is Verdict.INAPPLICABLE


def test_limits():
    assert condition_limits(2) == pytest.approx((1.8028, 1.9719), abs=5e-5)
    assert max(condition_limits(1.2982)[0], condition_limits(1.3441)[1]) < 3
    with pytest.raises(ValueError, match="`r` must be above 1"):
        condition_limits(1.0)


# table 6.4: r, n, mean of kappa(W + Id), of the bounds (116) and (114)
@pytest.mark.parametrize(
    ("r", "n", "kappa", "symmetric", "norm"),
    [
        (2, 5, 1.4485, 1.529, 1.701),
        (2, 25, 1.5889, 1.706, 1.883),
        (3, 10, 1.3251, 1.358, 1.458),
        (3, 50, 1.3746, 1.416, 1.516),
    ],
)
def test_table_6_4(r, n, kappa, symmetric, norm):
    spread, count = weight_spread(n, r), 400
    skips = [Skip.of(spread * W) for W in gaussian(count, n, n, seed=7 * n)]
    found = [skip_condition_bounds(skip) for skip in skips]
    # the printed (116) leaves the smallest singular value out of (77)
    printed = [
        math.sqrt((s.before.sigma[0].item() ** 2 + s.ends[1] + 1) / (s.ends[0] + 1)) for s in skips
    ]
    assert all(b.by_symmetric_part <= p for b, p in zip(found, printed, strict=True))
    for values, known in (
        ([b.kappa for b in found], kappa),
        (printed, symmetric),
        ([b.by_norm for b in found], norm),
    ):
        sample = torch.tensor(values)
        error = sample.std().item() / math.sqrt(count)
        assert sample.mean().item() == pytest.approx(known, abs=3.5 * error + 5e-4)


def test_chances_of_exceptions_are_negligible_as_reported():
    assert chance_of_norm(5, 2.0) < 1e-4
    assert chance_of_negative(5, 2.0) < 1e-4
    # P[s_1(K) >= sqrt(8n)], the term that the proof of Theorem 39 needs
    for n in (5, 7):
        bound = linalg.TracyWidom().tail(math.sqrt(2) * n ** (2 / 3))
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


def test_edelmans_law():
    right = EdelmanLaw.of(list(gaussian(600, 10, 10, seed=4)))
    assert right.check().verdict is Verdict.HOLDS
    orthogonal = EdelmanLaw.of([torch.linalg.qr(M)[0] for M in gaussian(600, 10, 10, seed=4)])
    assert orthogonal.check().verdict is Verdict.VIOLATED
    assert EdelmanLaw.of(list(gaussian(5, 10, 10, seed=4))).check().verdict is Verdict.INAPPLICABLE


def test_the_exact_limit_lies_below_both_bounds():
    for r in (1.5, 2.0, 3.0):
        top, bottom = linalg.shifted_limits(1 / (r * math.sqrt(8)))
        assert top / bottom < min(condition_limits(r))


def test_sizes_are_refused(as_users_see_it):
    with pytest.raises(ValueError, match="`W` must be square"):
        ResidualLayer.of(torch.eye(3), torch.ones(2), torch.ones(3), r=2.0)
