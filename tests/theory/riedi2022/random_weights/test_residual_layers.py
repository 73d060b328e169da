import math
from dataclasses import replace

import pytest
import torch

from sigmascope.records import Verdict
from sigmascope.theory.riedi2022 import Skip, checks, skip_condition_bounds
from sigmascope.theory.riedi2022.random_weights import (
    OF_RESIDUAL_LAYERS,
    ResidualLayer,
    chance_of_negative,
    chance_of_norm,
    weight_spread,
)
from tests.theory.riedi2022.matrices import gaussian
from tests.theory.riedi2022.told import LAYERS, PART, conditioned, residual

FINE = {Verdict.HOLDS, Verdict.CONSISTENT}


def layer(*, n=7, r=16.2, before=1, after=0, slope=0.0, seed=0):
    W = weight_spread(n, r) * gaussian(n, n, seed=seed)
    places = (gaussian(n, seed=seed + k).argsort() for k in (10_000, 20_000))
    inner, outer = (
        torch.where(place < k, slope, 1.0) for place, k in zip(places, (before, after), strict=True)
    )
    return ResidualLayer.of(W, inner, outer, r=r, drawn=True)


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
        for check in checks(found) if seed < 40 else ():
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


# name: r, room = 2 + 2 taken + θ, size of the weights; 7 units, 2 off before and 3 after,
# so that ν = 5 - 6/7 = 29/7
RANDOM = {
    "residual-relu": (20.0, 6.5 + 58 / 7, 1 / 20),
    "residual-relu-norm": (20.0, 6.5 + 58 / 7, 0.03),
    "residual-everywhere": (40.0, 6.5 + 14, 1 / 40),
}


@pytest.mark.parametrize("name", RANDOM)
def test_likely_bounds_flip_a_part_in_a_million_past_their_constants(name):
    r, room, top = RANDOM[name]
    limit = 2 * (1 + top) / (1 - room / r)
    layer = residual(r=r, before=2, after=3, weight=0.03)
    for kappa, verdict in ((1 + PART, Verdict.VIOLATED), (1 - PART, Verdict.HOLDS)):
        assert LAYERS[name](conditioned(layer, kappa * limit)).check().verdict is verdict


@pytest.mark.parametrize("name", RANDOM)
def test_likely_bounds_ask_for_an_r_above_their_room(name):
    for sign, met in ((1, True), (-1, False)):
        layer = residual(r=RANDOM[name][1] * (1 + sign * PART), before=2, after=3)
        assert (LAYERS[name](layer).check().verdict is not Verdict.INAPPLICABLE) is met


@pytest.mark.parametrize("name", RANDOM)
@pytest.mark.parametrize(
    ("n", "before", "after", "speaks"),
    [(5, 1, 1, True), (4, 1, 1, False), (7, 0, 0, False), (7, 7, 0, True), (7, 0, 7, False)],
)
def test_likely_bounds_speak_where_the_theorem_does(name, n, before, after, speaks):
    layer = residual(n=n, r=100.0, before=before, after=after)
    assert (LAYERS[name](layer).check().verdict is not Verdict.INAPPLICABLE) is speaks


@pytest.mark.parametrize(("n", "theta"), [(5, 2 * math.sqrt(5)), (6, 4.5)])
def test_how_often_likely_bounds_fail(n, theta):
    """`2 exp(-θ²/2)`, and the chance that the weights are larger than assumed."""
    layer = residual(n=n, r=30.0, before=1, after=1)
    nu = 2 - 1 / n
    limit = LAYERS["residual-relu"](layer).check().limit
    assert limit.value == pytest.approx(2 * (1 + 1 / 30) / (1 - (2 + 2 * nu + theta) / 30))
    fails = 2 * math.exp(-(theta**2) / 2)
    for name, chance in (
        ("residual-relu", chance_of_norm(n, 30.0, norm=1 / 30)),
        ("residual-relu-norm", chance_of_negative(n, 2.0)),
        ("residual-everywhere", chance_of_norm(n, 30.0, norm=1 / 30)),
    ):
        assert LAYERS[name](layer).check().limit.risk == pytest.approx(min(1, fails + chance))


@pytest.mark.parametrize("slope", [0.5, 1.0])
def test_the_sure_bound_of_a_residual_layer_flips_next_to_its_constant(slope):
    """`s₁(W) = 1/4`: `(5/4) / (3/4)` over the least slope."""
    W, ones = 0.25 * torch.eye(5, dtype=torch.float64), torch.ones(5)
    outer = torch.tensor([1.0, 1.0, 1.0, 1.0, slope])
    layer = ResidualLayer.of(W, ones, outer, r=3.0)
    limit = 5 / 3 / slope
    for kappa, verdict in ((1 + PART, Verdict.VIOLATED), (1 - PART, Verdict.HOLDS)):
        assert LAYERS["residual-sure"](conditioned(layer, limit * kappa)).check().verdict is verdict


@pytest.mark.parametrize(("kappa", "speaks"), [(3 - PART, False), (3 + PART, True)])
def test_a_skip_improves_layers_that_are_bad_enough(kappa, speaks):
    """`s₁(W) = 1/2`: (152) asks for `κ(W) ≥ 3`."""
    W = torch.diag(torch.tensor([0.5, 0.5 / kappa], dtype=torch.float64))
    layer = ResidualLayer.of(W, torch.ones(2), torch.ones(2), r=3.0)
    found = LAYERS["residual-improves"](layer).check()
    assert (found.verdict is not Verdict.INAPPLICABLE) is speaks
    if speaks:
        assert found.limit.value == pytest.approx(kappa)
        wrong = conditioned(layer, kappa * (1 + PART))
        assert LAYERS["residual-improves"](wrong).check().verdict is Verdict.VIOLATED


def test_each_says_what_its_weights_must_be():
    told = {
        c.theorem: [a.says for a in c.assumptions if a.says.startswith("r ")]
        for c in checks(ResidualLayer.of(0.01 * torch.eye(6), torch.ones(6), torch.ones(6), r=9.0))
    }
    assert told["residual-relu"] == ["r > 2 + 2ν + θ"]
    assert told["residual-relu-norm"] == ["r > r' + r'ν + θ"]
    assert told["residual-everywhere"] == ["r > 2 + 2n + θ"]
