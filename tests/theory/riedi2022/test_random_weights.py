import math
from dataclasses import replace

import pytest
import torch

from sigmascope import linalg
from sigmascope.core.records import Verdict
from sigmascope.linalg.random_matrix import TracyWidom
from sigmascope.theory.riedi2022 import Skip, checks, skip_condition_bounds
from sigmascope.theory.riedi2022.random_weights import (
    OF_RESIDUAL_LAYERS,
    EdelmanLaw,
    ResidualLayer,
    chance_of_negative,
    chance_of_norm,
    condition_limits,
    weight_scale,
    weight_spread,
)
from tests.sampling import some
from tests.theory.riedi2022.told import LAYERS, PART, conditioned, gaussian, residual


def test_edelmans_law():
    right = EdelmanLaw.of(list(gaussian(600, 10, 10, seed=4)))
    assert right.check().verdict is Verdict.HOLDS
    orthogonal = EdelmanLaw.of([torch.linalg.qr(M)[0] for M in gaussian(600, 10, 10, seed=4)])
    assert orthogonal.check().verdict is Verdict.VIOLATED
    assert EdelmanLaw.of(list(gaussian(5, 10, 10, seed=4))).check().verdict is Verdict.INAPPLICABLE


def test_edelmans_law_allows_sampling_and_a_finite_size():
    conditions = tuple(float(k) for k in range(2, 22))
    law = EdelmanLaw(10, conditions)
    # 20 matrices at a risk of 1e-6: √(ln(2e6) / 40), and 0.7 / 10 for the size
    assert law.limit().value == pytest.approx(math.sqrt(math.log(2e6) / 40) + 0.07)
    cdf = [math.exp(-2 / (k / 10) - 2 / (k / 10) ** 2) for k in conditions]
    gaps = [max((i + 1) / 20 - F, F - i / 20) for i, F in enumerate(cdf)]
    assert law.measured().value == pytest.approx(max(gaps))
    assert law.check().verdict is not Verdict.INAPPLICABLE
    assert EdelmanLaw(10, conditions[1:]).check().verdict is Verdict.INAPPLICABLE
    far = EdelmanLaw(10, tuple(1e6 for _ in range(20)))  # all above: the gap is F itself
    assert far.measured().value == pytest.approx(1.0, abs=1e-4)


def test_sizes_are_refused(as_users_see_it):
    with pytest.raises(ValueError, match="`W` must be square"):
        ResidualLayer.of(torch.eye(3), torch.ones(2), torch.ones(3), r=2.0)


def sloped(inner, outer, W=None, **options):
    slopes = [torch.tensor(s, dtype=torch.float64) for s in (inner, outer)]
    W = 0.1 * torch.eye(len(inner), dtype=torch.float64) if W is None else W
    return ResidualLayer.of(W, *slopes, r=20.0, **options)


def test_what_two_activations_take_together_by_hand():
    """Of four units two are off before and one after: 2 + 1 - 2/4, and three values count."""
    facts = sloped([1.0, 1.0, 0.0, 0.0], [1.0, 1.0, 1.0, 0.0])
    assert (facts.n, facts.off, facts.nu, facts.rank) == (4, (2, 1), 2.5, 3)
    assert facts.top == pytest.approx(0.1)
    # (D₁ W + Id) D = diag(1.1, 1.1, 1, 0), and D₁ W D = diag(0.1, 0.1, 0, 0)
    assert facts.skipped.sigma.tolist() == pytest.approx([1.1, 1.1, 1.0, 0.0])
    assert facts.plain.sigma.tolist() == pytest.approx([0.1, 0.1, 0.0, 0.0])
    assert facts.condition(facts.skipped).value == pytest.approx(1.1)  # without the zero
    assert facts.condition(facts.plain).high == math.inf
    assert facts.slopes_are(0.0, 1.0)
    assert not facts.slopes_are(1.0, 0.5)


def test_rows_are_scaled_by_the_first_activation_and_columns_by_the_second():
    W = torch.randn(5, 5, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    inner, outer = [1.0, 0.5, -1.0, 0.0, 1.0], [0.2, 1.0, 1.0, -1.0, 1.0]
    D1, D = (torch.diag(torch.tensor(s, dtype=torch.float64)) for s in (inner, outer))
    facts = sloped(inner, outer, W)
    for found, A in ((facts.plain, D1 @ W @ D), (facts.skipped, (D1 @ W + torch.eye(5)) @ D)):
        assert torch.allclose(found.sigma, torch.linalg.svdvals(A), atol=1e-14)


def test_of_a_given_matrix_the_gaussian_law_is_refuted_and_never_proved():
    n = 30
    g = torch.Generator().manual_seed(0)
    W = weight_spread(n, 20.0) * torch.randn(n, n, generator=g, dtype=torch.float64)
    ones = [1.0] * n
    assert sloped(ones, ones, W).gaussian().met is None
    assert sloped(ones, ones, W, drawn=True).gaussian().met is True
    for scale in (0.8, 1.25):  # of 900 squares, whose mean is known to some 5 %
        assert sloped(ones, ones, scale * W).gaussian().met is False


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
    some(
        [
            (7, 1, 0, 16.2, 1.0447, 1.0778),
            (7, 2, 2, 26.7, 1.0199, 1.0465),
            (16, 4, 8, 52.2, 1.0110, 1.0253),
            (16, 8, 8, 64.0, 1.0067, 1.0206),
        ],
        of=2,
    ),
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
    "residual-drawn": {"r": 3.0},
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
    some(
        [
            (2, 5, 1.4485, 1.529, 1.701),
            (2, 25, 1.5889, 1.706, 1.883),
            (3, 10, 1.3251, 1.358, 1.458),
            (3, 50, 1.3746, 1.416, 1.516),
        ],
        of=2,
    ),
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


@pytest.mark.parametrize(("n", "a"), [(8, math.sqrt(0.5) + 0.5625), (32, math.sqrt(0.5) + 0.28125)])
@pytest.mark.parametrize(("outer", "eta"), [((1.0, 0.0), 1), ((1.0, -0.25), 0.25), ((-1, 1), 1)])
def test_what_the_scale_promises_flips_next_to_its_constant(n, a, outer, eta):
    """`θ/√(8n)` is 4.5 over 8 and over 16."""
    r, slopes = 5.0, torch.tensor(outer).double().repeat(n // 2)
    layer = ResidualLayer.of(0.01 * torch.eye(n), torch.ones(n), slopes, r=r, drawn=True)
    limit = (r + a) / (r - a) / eta
    for kappa, verdict in ((1 + PART, Verdict.VIOLATED), (1 - PART, Verdict.HOLDS)):
        found = LAYERS["residual-drawn"](conditioned(layer, limit * kappa)).check()
        assert found.verdict is verdict
        assert found.limit.risk == pytest.approx(math.exp(-4.5 * 4.5 / 2))
    for scale, speaks in ((1 + PART, True), (1 - PART, False)):
        found = LAYERS["residual-drawn"](replace(layer, r=scale * a)).check()
        assert (found.verdict is not Verdict.INAPPLICABLE) is speaks


def test_the_scale_promises_nothing_of_weights_it_is_not_the_scale_of():
    ones = torch.ones(4)
    promise = lambda *slopes, **told: (
        LAYERS["residual-drawn"](ResidualLayer.of(0.01 * torch.eye(4), *slopes, r=5.0, **told))
        .check()
        .verdict
    )
    assert promise(ones, ones, drawn=False) is Verdict.INAPPLICABLE
    assert promise(ones, ones, drawn=True) is Verdict.HOLDS
    for inner, outer in ((2 * ones, ones), (ones, 2 * ones), (ones, 0 * ones)):
        assert promise(inner, outer, drawn=True) is Verdict.INAPPLICABLE
    mixed = torch.tensor([0.0, 0.5, 1.0, 1.0])  # what interlacing says of neither kind
    assert promise(ones, mixed, drawn=True) is Verdict.INAPPLICABLE


@pytest.mark.parametrize("n", [2, 5, 16])
def test_the_promise_of_the_scale_is_kept_by_the_worst_regions(n):
    """With the slopes that the weights themselves give, and with those that hurt the most."""
    r = 4.0
    for seed in range(30):
        W = weight_spread(n, r) * gaussian(n, n, seed=seed)
        left, _, right = torch.linalg.svd(W)
        for z in (right[0], gaussian(n, seed=seed + 1000)):
            for inner in ((W @ z > 0).double(), (W @ z).sign()):
                outer = (left[:, 0] * left[0, 0] >= 0).double()
                found = ResidualLayer.of(W, inner, outer, r=r, drawn=True)
                assert LAYERS["residual-drawn"](found).check().verdict is Verdict.HOLDS


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
        ({"condition": 2.0, "activation": "leaky", "slope": 0.5}, "must be above 2"),
        ({"condition": 2.0, "probability": 1.0}, "needs width >= 2"),
        ({"condition": 3.0, "width": 1}, "width >= 2"),
        ({"condition": 3.0, "probability": 0.0}, "probability < 1"),
        ({"condition": 3.0, "activation": "leaky", "slope": 0.0}, "0 < slope"),
        ({"condition": 3.0, "activation": "leaky", "slope": 1.1}, "slope <= 1"),
    ],
)
def test_what_no_scale_can_do_is_refused(asked, says):
    with pytest.raises(ValueError, match=says):
        weight_scale(**({"width": 10} | asked))


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
    assert condition_limits(2) == pytest.approx((1.8028, 1.9719), abs=5e-5)
    assert max(condition_limits(1.2982)[0], condition_limits(1.3441)[1]) < 3
    with pytest.raises(ValueError, match="`r` must be above 1"):
        condition_limits(1.0)


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


# n, draws: mean of Z_n, of Y_n, of Z'_n, each with its standard error, and three deviations
EDGES = {
    (5, 40_000): ((-2.2249, 0.0041), (-1.0345, 0.0024), (-1.255, 0.003), (1.832, 1.073, 1.273)),
    (10, 40_000): ((-2.0979, 0.0057), (-1.1084, 0.0036), (-1.239, 0.004), (1.815, 1.150, 1.272)),
    (25, 20_000): ((-1.9915, 0.0090), (-1.1584, 0.0060), (-1.228, 0.006), (1.794, 1.203, 1.266)),
    (50, 10_000): ((-1.9178, 0.0126), (-1.1736, 0.0087), (-1.215, 0.009), (1.784, 1.236, 1.274)),
    (100, 4000): ((-1.847, 0.020), (-1.195, 0.014), (-1.195, 0.016), (1.787, 1.240, 1.274)),
}


@pytest.mark.slow
@pytest.mark.parametrize(("n", "draws"), EDGES)
def test_table_6_1(n, draws):
    K = gaussian(draws, n, n, seed=31 * n)
    edge = torch.linalg.eigvalsh(K + K.mT)[:, -1]
    top_sq = torch.linalg.eigvalsh(K @ K.mT)[:, -1]
    symmetric, singular = (
        linalg.random_matrix.symmetric_edge(n),
        linalg.random_matrix.singular_edge(n),
    )
    samples = (
        (edge - math.sqrt(8 * n)) * n ** (1 / 6),
        (top_sq - singular.centre) / singular.scale,
        (edge - symmetric.centre) / symmetric.scale,
    )
    *means, deviations = EDGES[n, draws]
    for values, (mean, error), deviation in zip(samples, means, deviations, strict=True):
        mine = values.std().item() / math.sqrt(draws)
        assert abs(values.mean().item() - mean) <= 3 * math.hypot(mine, error)
        assert values.std().item() == pytest.approx(deviation, rel=0.05)


@pytest.mark.slow
@pytest.mark.parametrize(("n", "distance"), [(5, 0.126), (10, 0.069), (25, 0.031), (50, 0.022)])
def test_edelmans_law_at_finite_sizes(n, distance):
    found = EdelmanLaw.of(list(gaussian(20_000, n, n, seed=n)))
    assert found.measured().value == pytest.approx(distance, abs=0.012)
