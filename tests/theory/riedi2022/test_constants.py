"""Every constant against numbers worked out by hand, and verdicts that flip next to them.

The facts are moved by a part in a million past equality: a bound that is off by more is found out.
"""

import math
from dataclasses import replace

import pytest
import torch

from sigmascope.linalg.random_matrix import TracyWidom
from sigmascope.records import Verdict
from sigmascope.theory.riedi2022 import (
    OF_ACTIVATIONS,
    OF_SKIPS,
    OF_WEIGHTS,
    Activation,
    Skip,
    Weights,
    hard_bounds,
    loss_curvature,
    neuron_limit,
    skip_condition_bounds,
)
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
from tests.theory.riedi2022.matrices import gaussian

PART = 1e-6
SKIPS, ACTIVATIONS, WEIGHTS, LAYERS = (
    {t.name: t for t in family}
    for family in (OF_SKIPS, OF_ACTIVATIONS, OF_WEIGHTS, OF_RESIDUAL_LAYERS)
)


def known(spectrum, *sigma):
    """The same spectrum with other values, known exactly."""
    s = torch.tensor(sigma, dtype=torch.float64)
    return replace(spectrum, sigma=s, low=s, high=s)


# -- skip connections -----------------------------------------------------------------------------


@pytest.mark.parametrize("theorem", OF_SKIPS, ids=lambda t: t.name)
@pytest.mark.parametrize(("t", "rho"), [(0.25, 1.0), (0.125, 0.5)])
def test_every_bound_of_a_skip_is_attained_and_flips_next_to_it(theorem, t, rho):
    """`M = diag(t, -t)`: all inequalities are equalities there."""
    skip = Skip.of(torch.diag(torch.tensor([t, -t])), rho)
    wide = [(rho + t) * (1 + PART), (rho - t) * (1 - PART)]
    narrow = [(rho + t) * (1 - PART), (rho - t) * (1 + PART)]
    assert theorem(skip).check().verdict in {Verdict.CONSISTENT, Verdict.HOLDS}
    for sigma, verdict in ((wide, Verdict.VIOLATED), (narrow, Verdict.HOLDS)):
        moved = replace(skip, after=known(skip.after, *sigma))
        assert theorem(moved).check().verdict is verdict


@pytest.mark.parametrize("name", ["skip-growth", "skip-fall", "skip-top", "skip-bottom"])
def test_a_skip_that_subtracts_changes_the_ends(name):
    """`M = diag(1, -1/2)`, `ρ = -1/4`: values 3/4 and 3/4, τ of 2 and -1."""
    skip = Skip.of(torch.diag(torch.tensor([1.0, -0.5])), -0.25)
    found = SKIPS[name](skip).check()
    # ρ² + ρ τ is 1/16 + 1/4 for τ₋ and 1/16 - 1/2 for τ⁺
    limit = {
        "skip-growth": 5 / 16,
        "skip-fall": -7 / 16,
        "skip-top": 21 / 16,
        "skip-bottom": -3 / 16,
    }
    assert found.limit.value == pytest.approx(limit[name], rel=1e-12)
    assert found.measured.value == pytest.approx(
        {"skip-growth": 5 / 16, "skip-fall": -7 / 16, "skip-top": 9 / 16, "skip-bottom": 9 / 16}[
            name
        ],
        rel=1e-12,
    )


def test_the_four_condition_bounds_of_a_skip():
    """`M = [[0.3, 0.4], [0, 0]]`: `s` of 0.5 and 0, `τ` of 0.8 and -0.2."""
    found = skip_condition_bounds(Skip.of(torch.tensor([[0.3, 0.4], [0.0, 0.0]]).double(), 1.0))
    widest = math.sqrt(1 + 0.8 + 0.25)
    assert found.by_norm == pytest.approx(widest / 0.5)
    assert found.by_norm_alone == pytest.approx(1.5 / 0.5)
    assert found.by_symmetric_part == pytest.approx(widest / math.sqrt(1 - 0.2))
    assert found.by_symmetric_part_alone == pytest.approx(1.5 / math.sqrt(1 - 0.2))
    lam = [(1.3**2 + 0.4**2 + 1) / 2 + sign * math.sqrt(1.425**2 - 1.69) for sign in (1, -1)]
    assert found.kappa == pytest.approx(math.sqrt(lam[0] / lam[1]))


@pytest.mark.parametrize(("t", "finite"), [(1 - PART, True), (1.0, False), (1 + PART, False)])
def test_the_bound_by_the_norm_ends_where_the_norm_reaches_the_strength(t, finite):
    skip = Skip.of(torch.diag(torch.tensor([t, 0.5], dtype=torch.float64)), 1.0)
    found = skip_condition_bounds(skip)
    assert math.isfinite(found.by_norm) is math.isfinite(found.by_norm_alone) is finite
    met = SKIPS["skip-condition-norm"](skip).assumptions()[1].met
    assert met is (None if t == 1 else finite)  # rounding hides on which side of the edge it is


# -- activations ----------------------------------------------------------------------------------

# matrix, slopes, the singular values of `M D`, and the direction in which they may not move
ATTAINED = {
    "absolute-value-keeps": ((4.0, 2.0, 1.0), (1.0, -1.0, 1.0), (4.0, 2.0, 1.0), 1),
    "activation-shrinks": ((4.0, 2.0, 1.0), (1.0, 0.5, 1.0), (4.0, 1.0, 1.0), 1),
    "activation-leaks": ((4.0, 2.0, 1.0), (0.5, 0.5, 0.5), (2.0, 1.0, 0.5), -1),
    "activation-condition": ((4.0, 2.0, 1.0), (1.0, 1.0, 0.5), (4.0, 2.0, 0.5), 1),
    "activation-loss": ((4.0, 2.0, 1.0), (1.0, 1.0, 0.0), (4.0, 2.0, 0.0), 1),
    "activation-shift": ((4.0, 2.0, 1.0), (1.0, 1.0, 0.0), (4.0, 2.0, 0.0), 0),
}


@pytest.mark.parametrize("name", ATTAINED)
def test_every_bound_of_an_activation_is_attained_and_flips_next_to_it(name):
    diagonal, slopes, after, sign = ATTAINED[name]
    facts = Activation.of(torch.diag(torch.tensor(diagonal)).double(), torch.tensor(slopes))
    assert facts.after.sigma.tolist() == pytest.approx(after)
    assert ACTIVATIONS[name](facts).check().verdict is not Verdict.VIOLATED
    # shifts are squared: one of 0.002 next to that of 1
    moved = (after[0] * (1 + sign * PART), *after[1:]) if sign else (4.0, 2.0 - 2e-3, 0.0)
    wrong = replace(facts, after=known(facts.after, *moved))
    assert ACTIVATIONS[name](wrong).check().verdict is Verdict.VIOLATED


def test_two_sides_of_an_activation_agree_to_a_part_in_a_million():
    facts = Activation.of(gaussian(4, 4, seed=1), torch.tensor([1.0, 0.5, 0.0, -1.0]))
    s = facts.other.sigma.tolist()
    wrong = replace(facts, other=known(facts.other, s[0], s[1] * (1 + PART), *s[2:]))
    assert ACTIVATIONS["activation-sides"](wrong).check().verdict is Verdict.VIOLATED


@pytest.mark.parametrize(("slopes", "kappa"), [((1.0, 1.0, 0.5), 8.0), ((1.0, 0.0, 1.0), 4.0)])
def test_what_bounds_the_condition_after_an_activation(slopes, kappa):
    facts = Activation.of(torch.diag(torch.tensor([4.0, 2.0, 1.0])).double(), torch.tensor(slopes))
    found = ACTIVATIONS["activation-condition"](facts).check()
    assert found.limit.value == pytest.approx(kappa, rel=1e-12)
    assert found.measured.value == pytest.approx(kappa, rel=1e-12)


# -- small weights --------------------------------------------------------------------------------


def test_the_printed_bounds_are_those_of_the_paper():
    """Width 10, entries up to 0.002, two units on the negative side."""
    relu = hard_bounds(0.002, 10, m=2, eta=0.0)
    assert relu.printed["(89)"] == pytest.approx(1.02 / math.sqrt(0.56))  # 2 cn (1 + n) = 0.44
    assert relu.printed["(90)"] == pytest.approx(1.02 / (0.98 - math.sqrt(0.2)))
    assert relu.printed["(91)"] == pytest.approx(1.02 / math.sqrt(0.8))  # 2 cn (1 + 2m) = 0.2
    assert relu.best == pytest.approx(1.02 / 0.98)
    assert {relu.printed["(88)"], relu.printed["(100)"], relu.printed["(101)"]} == {math.inf}
    absolute = hard_bounds(0.002, 10, m=2, eta=-1.0)
    assert absolute.printed["(88)"] == absolute.best == pytest.approx(1.02 / 0.98)
    leaky = hard_bounds(0.002, 10, m=2, eta=0.9)
    squares = 0.9604 - 0.4 * math.sqrt(2)
    assert leaky.printed["(100)"] == pytest.approx(1.02 / math.sqrt(squares))
    assert leaky.printed["(101)"] == pytest.approx(1.02 / (0.98 - 0.2 * 1.006))
    assert leaky.sharper == pytest.approx(1.02 / (0.98 - 0.1 * math.sqrt(2.012)))
    assert leaky.best == pytest.approx(1.02 / 0.98 / 0.9)


@pytest.mark.parametrize(
    ("equation", "n", "m", "eta", "edge"),
    [  # the `cn` at which what is under the line reaches 0
        ("(88)", 6, 2, -1.0, 1.0),
        ("(89)", 6, 2, 0.0, 1 / 14),
        ("(90)", 9, 4, 0.0, 1 / 3),
        ("(91)", 6, 2, 0.0, 1 / 10),
        ("(100)", 16, 4, 0.98, 1 - math.sqrt(0.16)),
        ("(101)", 6, 2, 0.8, 0.6 / 1.2),  # 1 - cn = 0.4 (cn / 2 + 1)
    ],
)
def test_the_printed_bounds_end_where_the_paper_says(equation, n, m, eta, edge):
    below, above = (
        hard_bounds(edge * (1 + sign * PART) / n, n, m=m, eta=eta).printed[equation]
        for sign in (-1, 1)
    )
    assert 100 < below < math.inf
    assert above == math.inf


@pytest.mark.parametrize(
    ("equation", "n", "m", "eta"),
    [
        ("(89)", 6, 0, 0.0),
        ("(89)", 6, 6, 0.0),
        ("(90)", 6, 0, 0.0),
        ("(91)", 6, 0, 0.0),
        ("(91)", 6, 6, 0.0),
        ("(100)", 4, 1, 0.99),
        ("(100)", 6, 1, 0.0),
        ("(100)", 6, 1, -1.0),
        ("(101)", 6, 1, 0.0),
    ],
)
def test_printed_bounds_are_not_said_outside_their_statements(equation, n, m, eta):
    assert hard_bounds(0.0001, n, m=m, eta=eta).printed[equation] == math.inf


def test_printed_bounds_are_said_up_to_the_ends_of_their_statements():
    for m in (1, 5):
        relu = hard_bounds(0.0001, 6, m=m, eta=0.0).printed
        assert max(relu["(89)"], relu["(90)"], relu["(91)"]) < math.inf
    for eta in (0.99, 1.0):
        leaky = hard_bounds(0.0001, 5, m=1, eta=eta).printed
        assert max(leaky["(100)"], leaky["(101)"]) < math.inf


@pytest.mark.parametrize("cn", [1 - PART, 1.0])
def test_interlacing_needs_weights_below_one_over_the_width(cn):
    assert math.isfinite(hard_bounds(cn / 4, 4, m=1, eta=0.0).best) is (cn < 1)


@pytest.mark.parametrize(
    ("m", "eta", "best"),
    [(0, 0.0, 3.0), (0, 0.25, 3.0), (3, 0.0, 3.0), (3, -1.0, 3.0), (4, 0.5, 6.0), (1, -0.5, 6.0)],
)
def test_interlacing_divides_by_the_slope_of_the_units_that_are_off(m, eta, best):
    """Width 4 and `cn = 1/2`: `(1 + cn) / (1 - cn) = 3`."""
    assert hard_bounds(0.125, 4, m=m, eta=eta).best == pytest.approx(best)


LIMITS = {  # at c = 0.002, n = 10, m = 2
    "hard-absolute": (-1.0, 1.02 / 0.98),
    "hard-relu-any": (0.0, 1.02 / math.sqrt(0.56)),
    "hard-relu-share": (0.0, 1.02 / (0.98 - math.sqrt(0.2))),
    "hard-relu-count": (0.0, 1.02 / math.sqrt(0.8)),
    "hard-leaky-squares": (0.9, 1.02 / math.sqrt(0.9604 - 0.4 * math.sqrt(2))),
    "hard-leaky": (0.9, 1.02 / (0.98 - 0.1 * math.sqrt(2.012))),
    "hard-any": (0.9, 1.02 / 0.98 / 0.9),
}


def small_weights(n, c, m, eta):
    """One layer whose entries are all `c`."""
    layer = torch.full((n, n), c, dtype=torch.float64)
    return Weights.of([layer], [torch.ones(n)], off=torch.arange(n) < m, eta=eta)


@pytest.mark.parametrize("name", LIMITS)
def test_sure_bounds_flip_a_part_in_a_million_past_their_constants(name):
    eta, limit = LIMITS[name]
    facts = small_weights(10, 0.002, 2, eta)
    for kappa, verdict in (
        (limit * (1 + PART), Verdict.VIOLATED),
        (limit * (1 - PART), Verdict.HOLDS),
    ):
        # with ReLU the last two values are zero by construction and do not count
        sigma = [kappa] + [1.0] * (7 if eta == 0 else 9) + [1e-3] * (2 if eta == 0 else 0)
        moved = replace(facts, read=known(facts.read, *sigma))
        assert WEIGHTS[name](moved).check().verdict is verdict


def test_equal_entries_attain_the_bounds_of_products():
    facts = small_weights(8, 0.0625, 0, 1.0)  # s₁ = cn = 1/2 and s₁(M(1)) = 3/2
    for name, moved in (
        ("entries-norm", replace(facts, bypassed=known(facts.bypassed, 0.5 * (1 + PART)))),
        ("entries-product", replace(facts, largest_entry=0.0625 * (1 + PART))),
        ("entries-skip", replace(facts, skipped=known(facts.skipped, 1.5 + PART, *[1.0] * 7))),
        ("entries-skip", replace(facts, skipped=known(facts.skipped, *[1.0] * 7, 0.5 - PART))),
    ):
        assert WEIGHTS[name](facts).check().measured.value == pytest.approx(
            0.0625 if name == "entries-product" else 0.5, rel=1e-12
        )
        assert WEIGHTS[name](moved).check().verdict is Verdict.VIOLATED


# -- random weights -------------------------------------------------------------------------------


def residual(*, n=7, r, before, after, weight=0.05):
    """A layer of which the sizes of the units and the norm of the weights are told."""
    inner, outer = (torch.ones(n, dtype=torch.float64) for _ in range(2))
    inner[:before], outer[n - after :] = 0.0, 0.0
    W = weight * torch.eye(n, dtype=torch.float64)
    return ResidualLayer.of(W, inner, outer, r=r, drawn=True)


def conditioned(layer, kappa):
    zero = layer.off[1]
    sigma = [kappa] + [1.0] * (layer.n - zero - 1) + [0.0] * zero
    return replace(layer, skipped=known(layer.skipped, *sigma))


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


# -- scales ---------------------------------------------------------------------------------------


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


# -- curvature ------------------------------------------------------------------------------------


def test_the_quadratic_form_of_two_samples_by_hand():
    """`M₁ = 2`, `M₂ = 1`, `z₁ = (3, 0)`, `z₂ = (0, 1)`: eigenvalues 36/2 and 1/2."""
    Ms, Z = [torch.tensor([[2.0]]), torch.tensor([[1.0]])], torch.tensor([[3.0, 0.0], [0.0, 1.0]])
    found = loss_curvature(Ms, Z)
    assert found.lam.tolist() == pytest.approx([18, 0.5])
    assert found.condition == pytest.approx(6)
    assert (found.layer_factor, found.data_factor) == pytest.approx((2, 3))
    assert found.limit == pytest.approx(6)
    assert found.printed_block_diagonal is None


def test_the_limit_of_units_by_hand():
    """Unit 0 is on at samples of singular values 4 and 2, unit 1 at one of 3; `C/c` is 5."""
    Ms = [torch.diag(torch.tensor([5.0, 1.0])), torch.eye(2)]
    Z = torch.tensor([[4.0, 0.0], [0.0, 2.0]])
    on = torch.tensor([[1.0, 0.0], [1.0, 1.0]])
    assert neuron_limit(Ms, on, Z) == pytest.approx(5 * 4 / 2)
    # of a unit that is on at the first alone, and one that is never on
    assert neuron_limit(Ms, torch.tensor([[1.0, 0.0], [0.0, 0.0]]), Z) == pytest.approx(5)
    assert neuron_limit(Ms, torch.zeros(2, 2), Z) == math.inf
    small = 0.1 * Z  # below one, and of a scale that falls out
    assert neuron_limit(Ms, on, small) == pytest.approx(10)


@pytest.mark.parametrize("M", [torch.diag(torch.tensor([1.0, 0.0])), torch.ones(1, 2)])
def test_matrices_that_drop_a_direction_bound_nothing(M):
    assert neuron_limit([M], torch.ones(1, 2), torch.ones(1, 2)) == math.inf
    assert loss_curvature([M], torch.ones(1, 2)).layer_factor == math.inf
