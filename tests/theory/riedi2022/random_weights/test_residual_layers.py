import math
from dataclasses import replace

import pytest
import torch

from sigmascope.records import Verdict
from sigmascope.theory.riedi2022 import Skip, checks, skip_condition_bounds
from sigmascope.theory.riedi2022.random_weights import (
    OF_RESIDUAL_LAYERS,
    ResidualLayer,
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


def test_sizes_are_refused(as_users_see_it):
    with pytest.raises(ValueError, match="`W` must be square"):
        ResidualLayer.of(torch.eye(3), torch.ones(2), torch.ones(3), r=2.0)
