import math
from dataclasses import replace
from itertools import pairwise
from types import SimpleNamespace

import pytest
import torch

from sigmascope.core.records import Estimate, Verdict
from sigmascope.theory import jacot2023
from sigmascope.theory.jacot2023 import (
    RepresentationRank,
    RepresentationSize,
    TangentCurvature,
    ntk_trace,
)
from sigmascope.theory.jacot2023.facts import frobenius_norm, singular_values
from sigmascope.theory.jacot2023.tangents import read_sizes
from tests.theory.jacot2023.stacks import (
    COUNT,
    GOOD,
    at,
    faked,
    points,
    sides,
    stack,
    unbiased,
    units,
)


@pytest.mark.usefixtures("as_users_see_it")
def test_a_balanced_network_of_small_kernel_has_small_representations():
    for net, point, _ in points():
        even = jacot2023.balance(net).at(point.x)
        assert even.stack.balance_defect() < 1e-6
        found = RepresentationSize("here", even).check()
        assert found.verdict in GOOD, found


@pytest.mark.usefixtures("as_users_see_it")
def test_most_representations_of_a_balanced_network_have_few_directions():
    held = seed = 0
    while held < COUNT:
        net, x, y = stack(seed, depth=2 + seed % 4, width=5)
        seed += 1
        even = jacot2023.balance(net, rounds=300)
        for theorem in RepresentationRank.on(even, torch.stack([x, y, (x + y) / 2])):
            found = theorem.check()
            assert found.verdict in (*GOOD, Verdict.INAPPLICABLE), found
            held += found.verdict in GOOD


def test_representation_rank_has_teeth_and_needs_balance():
    both = lambda net, x, y: list(RepresentationRank.on(net, torch.stack([x, y])))
    drawn = (stack(seed, depth=4, biased=False) for seed in range(20))
    net, x, y = next(d for d in drawn if both(*d))
    (theorem,) = both(jacot2023.balance(net), x, y)
    assert theorem.check().verdict in GOOD
    limit = theorem.check().limit
    for factor, verdict in ((1 + 1e-6, Verdict.VIOLATED), (1 - 1e-6, Verdict.HOLDS)):
        moved = (Estimate.exactly(factor * limit.value),) * len(theorem.values)
        assert replace(theorem, values=moved).check().verdict == verdict
    top_heavy = replace(net, weights=(10 * net.weights[0], *net.weights[1:]))
    (uneven,) = both(top_heavy, x, y)
    assert uneven.check().verdict == Verdict.INAPPLICABLE


def test_representation_size_has_teeth():
    """Of units of weight one it is an equality; rising weights let the share of norm be proved."""
    factors = [math.exp(1e-9 * k) for k in range(5)]
    point = at(1.0, *factors, slope=1.0)
    for factor, verdict in ((1 + 1e-6, Verdict.VIOLATED), (1 - 1e-6, Verdict.HOLDS)):
        fake = faked(point, jacobian=factor * point.jacobian)
        assert RepresentationSize("here", fake).check().verdict == verdict


def test_of_balance_only_the_shares_of_the_norm_count():
    falling = units(*[math.exp(-1e-6 * k) for k in range(5)], slope=1.0)
    for net, verdicts in ((falling, (Verdict.INAPPLICABLE,)), (units(*[1.0] * 5), GOOD)):
        found = RepresentationSize("here", net.at(torch.ones(1).double())).check()
        assert found.verdict in verdicts
    # a network that is not balanced, and whose first layers are small
    held = 0
    for net, x, _ in (stack(seed, slope=1.0, depth=4) for seed in range(200)):
        weights = tuple(10.0 ** (k / 2) * w for k, w in enumerate(net.weights))
        point = replace(net, weights=weights).at(x)
        if singular_values(point.spectrum):
            found = RepresentationSize("here", point).check()
            assert found.verdict in (*GOOD, Verdict.INAPPLICABLE)
            held += found.verdict == Verdict.HOLDS
    assert held > 50


def test_the_printed_factor_1_over_n_and_missing_balance_are_caught():
    found = RepresentationSize("here", at(1.0, *[1.0] * 5, slope=1.0)).check()
    assert found.measured.value == pytest.approx(5)
    assert found.limit.value == pytest.approx(5)  # with 1/64 before it, 5 > 5/64
    uneven = [math.exp(0.1)] * 20 + [math.exp(-0.1)] * 20
    theorem = RepresentationSize("here", at(1.0, *uneven, slope=1.0))
    assert theorem.check().verdict == Verdict.INAPPLICABLE
    assert theorem.measured().value == pytest.approx(538, rel=0.01)
    assert theorem.limit().value < 100  # 91 without what is allowed for the missing balance


def test_how_large_balanced_representations_are():
    """`‖α₀‖² + ‖α₁‖² = 1 + 4`, against `Tr Θ e^{c₁/k} / (k |Jf|^{2/k})`, `Tr Θ = 9 + 4`."""
    assert sides(RepresentationSize, at(1.0, 2.0, 3.0)) == pytest.approx(
        (5, 13 * math.exp(11) / 36)
    )
    assert ntk_trace(at(1.0, 2.0, 3.0)) == pytest.approx((13, 0))
    # with biases of 1 the unit is at 3, and each layer adds ‖∂f/∂z_l‖²
    assert ntk_trace(at(1.0, 2.0, 3.0, bias=1.0)) == pytest.approx((9 + 9, 9 + 1))
    biased = sides(RepresentationSize, at(1.0, 2.0, 3.0, bias=1.0))
    assert biased == pytest.approx((1 + 9, 28 * math.exp(13) / 36))


@pytest.mark.parametrize(("first", "met"), [(1 - 1e-6, True), (1 + 1e-6, False)])
def test_balance_is_the_share_of_norm_that_the_first_layers_may_have(first, met):
    found = RepresentationSize("here", at(1.0, first, 1.0)).check()
    assert (found.verdict is not Verdict.INAPPLICABLE) is met


def test_how_many_directions_balanced_representations_have():
    """At 1 and 2: mean trace 13 (1 + 4) / 2 = 32.5; `(1/2 √L)^{-1} √(c (11 - 2 log 6) ...)`."""
    stack = units(2.0, 3.0)
    rows = torch.tensor([[1.0], [2.0]], dtype=torch.float64)
    (theorem,) = RepresentationRank.on(stack, rows)
    found = theorem.check()
    c = 32.5 / 2
    limit = math.sqrt(c * (11 - 2 * math.log(6)) * math.exp(11) / 36) / (0.5 * math.sqrt(2))
    assert found.limit.value == pytest.approx(limit)
    assert found.measured.value == 0
    assert theorem.directions == 1


@pytest.mark.parametrize(("count", "width"), [(1, 6), (2, 6), (9, 2), (9, 6)])
def test_with_no_more_samples_or_units_than_directions_it_says_nothing(count, width):
    draw = torch.Generator().manual_seed(0)
    sizes = [4, *[width] * 3, 2]
    weights = [torch.randn(b, a, generator=draw).double() for a, b in pairwise(sizes)]
    weights[-1] *= 20  # no first layers have more than their share of the norm
    rows = torch.randn(count, 4, generator=draw).double()
    (found,) = (t.check() for t in RepresentationRank.on(unbiased(*weights), rows))
    counted = min(count, width) <= 2
    assert found.verdict == (Verdict.VACUOUS if counted else Verdict.HOLDS)
    assert (found.measured.high == 0) == counted


@pytest.mark.parametrize(
    ("count", "value", "low", "high"), [(1, 1, 0, 2), (4, 2, 0, 3), (5, 3, 1, 4)]
)
def test_half_of_the_layers_have_at_most_what_is_typical(count, value, low, high):
    """Layer i has `i [i - 1, i + 1]`, but the last starts at 0: ends are those of half, too."""
    values = [Estimate(float(i), i - 1.0, i + 1.0, "exact") for i in range(1, count)]
    values.append(Estimate(float(count), 0.0, count + 1.0, "exact"))
    (theorem,) = RepresentationRank.on(units(2.0, 3.0), torch.ones(1, 1, dtype=torch.float64))
    found = replace(theorem, values=tuple(reversed(values))).typical
    assert (found.value, found.low, found.high) == (value, low, high)


def test_balancing_keeps_the_function_and_lowers_the_norm():
    for net, point, _ in points(count=30):
        even = jacot2023.balance(net)
        assert even.norm <= net.norm * (1 + 1e-12)
        assert torch.allclose(even.at(point.x).preactivations[-1], point.preactivations[-1])


def test_the_printed_2l_is_caught_and_l_is_attained():
    checks = [TangentCurvature("here", p).check() for _, p, _ in points(0.0, 80)]
    assert sum(c.measured.value < 2 * c.limit.value for c in checks) > 24
    found = TangentCurvature("here", at(1.0, *[1.3] * 4)).check()
    assert found.measured.value == pytest.approx(found.limit.value)


def test_traces_of_the_kernel_are_those_of_autograd():
    for net, point, _ in points(count=20):
        live = [t.clone().requires_grad_() for t in (*net.weights, *net.biases)]
        half = len(net.weights)
        a = point.x
        for i, (W, b) in enumerate(zip(live[:half], live[half:], strict=True)):
            z = W @ a + b
            a = torch.where(z > 0, z, net.slope * z) if i + 1 < half else z
        total = [0.0, 0.0]
        for out in a:
            grads = torch.autograd.grad(out, live, retain_graph=True)
            for k in (0, 1):
                total[k] += sum(float(g.square().sum()) for g in grads[k * half :][:half])
        weights, biases = ntk_trace(point)
        assert weights == pytest.approx(total[0], rel=1e-10)
        if net.biased:
            assert biases == pytest.approx(total[1], rel=1e-10)
        trace = float(jacot2023.ntk_kernel(point).trace())
        assert trace == pytest.approx(weights + biases)


def test_how_much_the_tangent_kernel_bends():
    """`Σ_l ‖∂α_{l-1}/∂x‖² ‖∂f/∂z_l‖² = 9 + 4`, against `L ‖Jf‖^{2 - 2/L}`."""
    assert sides(TangentCurvature, at(1.0, 2.0, 3.0)) == pytest.approx((13, 2 * 6))


@pytest.mark.usefixtures("as_users_see_it")
def test_sizes_of_what_layers_read_allow_for_the_rounding_of_each_entry():
    a = torch.arange(1, 9, dtype=torch.float64)
    stack, errors = SimpleNamespace(slope=0.5), SimpleNamespace(preactivations=[0 * a, a])
    point = SimpleNamespace(stack=stack, errors=errors, activations=[a, 2 * a])
    for found, read in zip(read_sizes(point), point.activations, strict=True):
        own = frobenius_norm(read, 0.0) ** 2
        assert found.value == own.value
        assert found.low < own.low
        assert own.high < found.high
