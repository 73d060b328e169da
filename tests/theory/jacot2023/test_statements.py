"""What the paper states and no theorem of the catalogue says: both sides, each by itself."""

import math
from itertools import pairwise

import pytest
import torch
from hypothesis import given, settings, strategies as st

from sigmascope.core.guard import Refusal
from sigmascope.models.structure import Stack
from sigmascope.theory import random_chains
from sigmascope.theory.jacot2023 import balance, constructions, representation_cost
from tests.theory.jacot2023.stacks import stack, unbiased

SEEDS = st.integers(0, 2**32)


def draw(seed, *shape):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def value(net, x):
    return net.at(x).preactivations[-1]


def fitting(seed, inputs, outputs, depth, slope=0.0, bias=True):
    """A network of given ends."""
    widths = (inputs, *[5] * (depth - 1), outputs)
    weights = tuple(draw(seed + i, b, a) / a**0.5 for i, (a, b) in enumerate(pairwise(widths)))
    biases = tuple(bias * draw(seed + 50 + i, b) for i, b in enumerate(widths[1:]))
    return Stack(tuple(map(str, range(depth))), weights, biases, slope, bias)


def orthant(factors):
    """Diagonal layers that cost as little as their product may."""
    return unbiased(*[torch.diag(f) for f in factors], slope=0.0)


# ------------------------------------------------------------------------------
# Networks made of networks: Theorem 3 (1) and (2).


@given(SEEDS, st.integers(1, 3), st.integers(1, 3), st.sampled_from([0.0, 0.1, -0.5]))
@settings(max_examples=15)
def test_networks_on_top_of_each_other_compose_with_an_activation_between(seed, a, b, slope):
    first, then = fitting(seed, 3, 4, a, slope), fitting(seed + 9, 4, 2, b, slope)
    both, x = constructions.composed(first, then), draw(seed + 99, 3)
    z = value(first, x)
    assert torch.allclose(value(both, x), value(then, torch.where(z >= 0, z, slope * z)))
    assert both.norm == pytest.approx(first.norm + then.norm, rel=1e-12)
    assert both.depth == a + b


@given(SEEDS, st.integers(2, 4), st.booleans())
@settings(max_examples=15)
def test_networks_side_by_side_add_and_their_last_biases_meet(seed, depth, bias):
    one, other = (fitting(seed + i, 3, 2, depth, bias=bias) for i in (0, 500))
    both, x = constructions.added(one, other), draw(seed + 99, 3)
    assert torch.allclose(value(both, x), value(one, x) + value(other, x))
    meeting = 2 * float(one.biases[-1] @ other.biases[-1])
    assert both.norm == pytest.approx(one.norm + other.norm + meeting, rel=1e-12)
    assert bias == (abs(meeting) > 0)


def test_networks_that_do_not_fit_are_refused():
    with pytest.raises(Refusal, match="one activation"):
        constructions.composed(fitting(0, 3, 3, 2), fitting(1, 3, 3, 2, slope=0.1))
    with pytest.raises(Refusal, match="must read what the one below writes"):
        constructions.composed(fitting(0, 3, 4, 2), fitting(1, 3, 3, 2))
    for other in (fitting(1, 3, 2, 3), fitting(1, 4, 2, 2), fitting(1, 3, 1, 2)):
        with pytest.raises(Refusal, match="as many layers"):
            constructions.added(fitting(0, 3, 2, 2), other)
    with pytest.raises(Refusal, match="as many layers"):
        constructions.added(fitting(0, 3, 2, 1), fitting(1, 3, 2, 1))


# ------------------------------------------------------------------------------
# The cost of a function, from both sides.


def test_the_cost_of_a_function_lies_between_its_jacobian_and_its_balanced_weights():
    for seed in range(16):
        net, x, y = stack(seed)
        found = representation_cost(net, torch.stack([x, y]))
        assert 0 <= found.low <= found.high <= net.norm * (1 + 1e-12)
        again = representation_cost(balance(net), torch.stack([x, y]))
        assert again.low == pytest.approx(found.low, rel=1e-6)
        assert again.high == pytest.approx(found.high, rel=1e-6)
    with pytest.raises(Refusal, match="must hold a point"):
        representation_cost(net, x[None][:0])


@pytest.mark.parametrize("depth", [2, 5, 20])
def test_the_ends_meet_for_diagonal_maps_on_an_orthant(depth):
    s = torch.tensor([3.0, 0.5, 0.2], dtype=torch.float64)
    net = orthant([s ** (1 / depth)] * depth)
    X = torch.rand(4, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(0)) + 0.1
    assert torch.allclose(value(net, X[0]), s * X[0])
    found = representation_cost(net, X)
    assert found.low == pytest.approx(depth * float((s ** (2 / depth)).sum()), rel=1e-9)
    assert found.high == pytest.approx(found.low, rel=1e-9)
    uneven = orthant([2 * s, *[torch.ones(3).double()] * (depth - 2), torch.full((3,), 0.5)])
    assert representation_cost(uneven, X).high == pytest.approx(found.high, rel=1e-4)
    assert uneven.norm > 1.05 * found.high


def test_the_second_correction_of_a_map_on_an_orthant_is_that_of_its_logarithms():
    """L (R - k L - 2 log|A|) of both ends tends to 2 Σ log² s."""
    s = torch.tensor([3.0, 0.5], dtype=torch.float64)
    X, wanted = torch.ones(1, 2, dtype=torch.float64), 2 * float(s.log().square().sum())
    errors = []
    for depth in (25, 50, 100):
        found = representation_cost(orthant([s ** (1 / depth)] * depth), X)
        for end in (found.low, found.high):
            rest = depth * (end - 2 * depth - 2 * float(s.log().sum()))
            errors.append(depth * abs(rest - wanted))
    third = 4 / 3 * abs(float(s.log().pow(3).sum()))
    assert errors[-1] == pytest.approx(third, rel=0.1)
    assert max(errors) < 1.2 * third


def test_second_corrections_of_sums_add_where_first_ones_do():
    """Orthogonal ranges and row spaces: exactly. At an angle first ones fall, second rise."""
    for seed in range(20):
        U, V = (torch.linalg.qr(draw(seed + i, 6, 6)).Q for i in (0, 100))
        sizes = draw(seed + 200, 4).exp()
        A = U[:, :2] @ torch.diag(sizes[:2]) @ V[:, :2].mT
        B = U[:, 2:4] @ torch.diag(sizes[2:]) @ V[:, 2:4].mT
        whole, one, other = (constructions.corrections(M) for M in (A + B, A, B))
        for k in range(3):
            assert whole[k] == pytest.approx(one[k] + other[k], abs=1e-8)
    turned = torch.tensor([[1.0], [0.0]]), torch.tensor([[0.6], [0.8]])
    A, B = (v @ v.mT for v in turned)
    whole, one, other = (constructions.corrections(M) for M in (A + B, A, B))
    assert whole[0] == one[0] + other[0]
    assert whole[1] < one[1] + other[1] - 0.1
    assert whole[2] > one[2] + other[2] + 0.1


# ------------------------------------------------------------------------------
# Paths of representations, and the identity.


def test_a_layer_of_cheapest_weights_splits_the_cost_and_any_other_split_costs_more():
    """R(A; L) = R(S^{l/L} Vᵀ; l) + R(U S^{1 - l/L}; L - l), the representations of a linear map."""
    depth = 7
    for seed in range(20):
        A = draw(seed, 4, 4)
        U, S, Vh = torch.linalg.svd(A)
        whole = constructions.linear_cost(A, depth).value
        cost = lambda M, L: constructions.linear_cost(M, L).value
        for layer in range(1, depth):
            below = torch.diag(S ** (layer / depth)) @ Vh
            above = U @ torch.diag(S ** (1 - layer / depth))
            assert cost(below, layer) + cost(above, depth - layer) == pytest.approx(whole)
            G = torch.eye(4).double() + 0.3 * draw(seed + 50 + layer, 4, 4)
            parts = [constructions.corrections(M) for M in (A, below, above)]
            assert parts[0][0] == parts[1][0] == parts[2][0]
            assert parts[1][1] + parts[2][1] == pytest.approx(parts[0][1])
            other = cost(G @ below, layer) + cost(above @ torch.linalg.inv(G), depth - layer)
            assert other > whole * (1 - 1e-12)


@pytest.mark.parametrize("angle", [0.0, 0.3, math.pi / 3, math.pi / 2])
def test_the_identity_on_two_directions_costs_a_logarithm_of_their_sine(angle):
    """min over M = W Wᵀ of trace 1 of max tᵀM⁻¹t over both directions t: 1 + sin θ."""
    pair = torch.tensor(
        [[math.cos(angle / 2), s * math.sin(angle / 2)] for s in (1, -1)], dtype=torch.float64
    )
    least = math.inf
    for a in torch.linspace(0.001, 0.999, 999).tolist():
        M = torch.diag(torch.tensor([a, 1 - a], dtype=torch.float64))
        least = min(least, float(torch.linalg.solve(M, pair.mT).mT.mul(pair).sum(1).max()))
    assert math.log(least) == pytest.approx(math.log(1 + math.sin(angle)), abs=2e-3)
    for seed in range(200):  # others, off that axis too, are no cheaper
        W = draw(seed, 2, 2)
        M = W @ W.mT / W.square().sum()
        cost = float(torch.linalg.solve(M, pair.mT).mT.mul(pair).sum(1).max())
        assert cost >= (1 + math.sin(angle)) * (1 - 1e-9)


def first_layer_rest(net, x, Q):
    """What the first layer and the biases cost besides an isometry of the columns of Q."""
    W = net.weights[0]
    slopes = torch.where(net.at(x).preactivations[0] > 0, 1.0, net.slope).double()
    kept = slopes[:, None] * W
    s = torch.linalg.svdvals(kept @ Q)
    besides = W.square().sum() - (kept @ Q).square().sum()
    return float(sum(b.square().sum() for b in net.biases) + besides + (s - 1).square().sum())


@given(SEEDS, st.integers(2, 4), st.integers(1, 2), st.sampled_from([0.0, 0.1, -0.5]))
@settings(max_examples=40)
def test_what_a_first_layer_has_besides_an_isometry_is_a_cost(seed, depth, k, slope):
    """Of any function, beyond `k L + 2 log |J P|`; and its positive part is near `W₁ x`."""
    net, x = fitting(seed, 3, 3, depth, slope), draw(seed + 99, 3)
    Q = torch.linalg.qr(draw(seed + 7, 3, k))[0]
    volume = torch.linalg.svdvals(net.at(x).jacobian @ Q)[:k].prod()
    rest = first_layer_rest(net, x, Q)
    if float(volume) > 1e-9:
        assert net.norm - k * depth - 2 * math.log(float(volume)) >= rest - 1e-9
    moved = (net.at(x).preactivations[0].clamp(min=0) - net.weights[0] @ x).norm()
    assert float(moved) <= rest**0.5 * (1 + float(x.norm()) / (1 - slope**2) ** 0.5) + 1e-9


def test_of_the_cheapest_identity_on_an_orthant_the_first_layer_has_nothing_besides():
    X = torch.rand(8, 3, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    net = constructions.identity_stack(X, 5)
    assert first_layer_rest(net, X[0], torch.eye(3).double()) == pytest.approx(0, abs=1e-9)


@given(SEEDS, st.integers(1, 6), st.integers(2, 40))
def test_the_identity_on_both_sides_of_zero_costs_a_logarithm_of_two_more(seed, units, depth):
    """`L 2^{1/L}`, whatever the first layer: -1 and 1 have no embedding in an orthant."""
    w, b = draw(seed, 2, units)
    ends = [float(w[z + b > 0].square().sum()) for z in (w, -w)]
    later = (depth - 1) * max(min(ends), 1e-12) ** (-1 / (depth - 1))
    least = depth * 2 ** (1 / depth)
    assert float(w.square().sum() + b.square().sum()) + later >= least * (1 - 1e-12)
    assert least > depth + math.log(2)
    both = torch.tensor([[-1.0], [1.0]], dtype=torch.float64)
    assert constructions.complete_positivity(both).answer == "no"


def test_two_layers_of_two_units_are_the_cheapest_identity_on_both_sides_of_zero():
    scale = 2**-0.75
    W, b = scale * torch.tensor([[1.0], [-1.0]]).double(), torch.full((2,), scale).double()
    net = Stack(("a", "b"), (W, W.mT / (2 * scale**2)), (b, torch.zeros(1).double()), 0.0, True)
    for x in (-1.0, -0.3, 0.0, 0.8, 1.0):
        assert float(value(net, torch.tensor([x]).double())) == pytest.approx(x)
    assert net.norm == pytest.approx(2 * 2**0.5)


# ------------------------------------------------------------------------------
# Narrow minima, and functions beyond finite networks.


def test_the_hessian_of_a_fit_is_the_tangent_kernel_over_the_number_of_samples():
    """Half the mean squared error at zero error: norms and traces of H and Θ/N agree."""
    x, sizes = draw(0, 4, 2), [(3, 2), (3,), (2, 3)]
    shapes = [int(torch.Size(s).numel()) for s in sizes]
    theta = draw(1, sum(shapes))

    def f(t):
        W, b, V = (p.reshape(s) for p, s in zip(t.split(shapes), sizes, strict=True))
        return torch.relu(x @ W.mT + b) @ V.mT

    y = f(theta)
    cost = lambda t: (f(t) - y).square().sum() / (2 * len(x))
    H = torch.autograd.functional.hessian(cost, theta)
    J = torch.autograd.functional.jacobian(f, theta).reshape(-1, len(theta))
    kernel = J @ J.mT / len(x)
    norm = lambda M: float(torch.linalg.matrix_norm(M, 2))
    assert norm(H) == pytest.approx(norm(kernel), rel=1e-9)
    assert float(H.trace()) == pytest.approx(float(kernel.trace()), rel=1e-9)
    # a bound on the norm allows a trace as many times as large as there are samples and outputs
    assert float(kernel.trace()) <= norm(kernel) * y.numel()
    assert float(kernel.trace()) > norm(kernel) * y.shape[1] / len(x)


def test_a_smooth_function_is_a_limit_of_networks_whose_cost_stays():
    """x² by more and more pieces: two layers, and costs that converge."""
    costs = []
    for pieces in (4, 16, 64):
        knots = torch.arange(pieces).double() / pieces
        jumps = torch.full((pieces,), 2 / pieces).double()
        jumps[0] = 1 / pieces
        # f(x) = Σ jump relu(x - knot) on [0, 1], each unit balanced with its bias
        into = (1 + knots.square()).sqrt()
        scale = (jumps / into).sqrt()
        net = Stack(
            ("a", "b"),
            (scale[:, None], (jumps / scale)[None]),
            (-scale * knots, torch.zeros(1).double()),
            0.0,
        )
        X = torch.linspace(0.01, 0.99, 30).double()[:, None]
        assert max(abs(float(value(net, x) - x.square())) for x in X) < 1 / pieces**2 + 1e-12
        found = representation_cost(net, X)
        assert found.high == pytest.approx(2 * float((jumps * into).sum()), rel=1e-6)
        assert found.low <= found.high
        costs.append(found.high)
    limit = 4 * (math.sqrt(2) + math.asinh(1)) / 2  # 4 ∫ √(1 + t²) dt over [0, 1]
    assert costs[-1] == pytest.approx(limit, rel=0.02)
    assert abs(costs[2] - limit) < abs(costs[1] - limit) < abs(costs[0] - limit)


def test_the_function_that_bends_in_the_middle_costs_next_to_nothing_and_is_steep_within():
    """Example 20: the excess over 3 L falls with depth, and the way there grows without bound."""
    X = torch.rand(6, 3, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    rests, slopes = [], []
    for depth in (10, 20, 30):
        layers = [m for m in random_chains.lipschitz_counterexample(depth) if hasattr(m, "weight")]
        weights = tuple(m.weight.detach() for m in layers)
        zeros = tuple(torch.zeros(len(w)).double() for w in weights)
        net = Stack(tuple(map(str, range(depth))), weights, zeros, 0.0, False)
        for x in X:
            bent = x + torch.tensor([0.0, 0.0, max(float(x[0] - x[1]), 0.0)]).double()
            assert torch.allclose(value(net, x), bent, atol=1e-9)
        rests.append(net.norm - 3 * depth)
        point = net.at(X[0])
        slopes.append(max(float(torch.linalg.matrix_norm(J, 2)) for J in point.forwards))
        found = representation_cost(net, X)
        assert 3 * depth * (1 - 1e-9) <= found.low <= found.high <= net.norm * (1 + 1e-9)
        ends = torch.tensor([[0.7, 0.2, 0.3], [0.2, 0.7, 0.3]], dtype=torch.float64)
        sides = [net.at(x) for x in ends]
        steepest = max(
            float(torch.linalg.matrix_norm(J, 2))
            for s in sides
            for J in (*s.forwards, *s.backwards)
        )
        # Proposition 13: the nuclear norm of the difference of the Jacobians is √2
        assert rests[-1] >= math.sqrt(2) / steepest**2
    assert rests[0] > rests[1] > rests[2] > 0
    assert slopes[0] < slopes[1] < slopes[2]


@pytest.mark.parametrize(
    ("gamma", "vanishes"), [(0.4, False), (0.6, True), (0.9, True), (1.1, False)]
)
def test_how_fast_the_stretch_of_the_bending_function_must_fall(gamma, vanishes):
    """The norm of the network itself at 100 and 1600 layers, and its closed form beyond."""

    def closed(depth):
        e = depth**-gamma
        swell = 4 * (math.cosh(2 * e) - 1) + 2 * (math.cosh(4 * e) - 1)
        bend = 2 * math.exp(-(depth - 2) * e) + math.exp(-2 * (depth - 2) * e)
        return (depth - 2) / 2 * swell + bend

    for depth in (100, 1600):
        net = random_chains.lipschitz_counterexample(depth, eps=depth**-gamma)
        norm = sum(float(p.detach().square().sum()) for p in net.parameters())
        assert norm - 3 * depth == pytest.approx(closed(depth), rel=1e-6)
    far = [closed(10**k) for k in (6, 9, 12)]
    assert (far[0] > far[1] > far[2]) == vanishes
    assert (far[2] < 0.2) == vanishes


def test_networks_of_one_lipschitz_constant_may_represent_what_costs_nothing_more():
    """The function of Example 20, whose `R1` is 0: bent at once, and then handed on.

    So Proposition 13 bounds what such networks cost, and not the `R1` of their function.
    """
    eye = torch.eye(3, dtype=torch.float64)
    first = torch.cat([eye, torch.tensor([[1.0, -1.0, 0.0]]).double()])
    then = torch.cat([eye, torch.tensor([[0.0], [0.0], [1.0]]).double()], 1)
    x, y = torch.tensor([[0.7, 0.2, 0.3], [0.2, 0.7, 0.3]], dtype=torch.float64)
    for depth in (4, 16, 64):
        weights = (first, then, *[eye] * (depth - 2))
        zeros = tuple(torch.zeros(len(w)).double() for w in weights)
        net = Stack(tuple(map(str, range(depth))), weights, zeros, 0.0, False)
        assert value(net, x).tolist() == pytest.approx([0.7, 0.2, 0.8])
        assert value(net, y).tolist() == pytest.approx([0.2, 0.7, 0.3])
        a, b = net.at(x), net.at(y)
        constant = max(
            float(torch.linalg.matrix_norm(J, 2))
            for p in (a, b)
            for J in (*p.forwards, *p.backwards)
        )
        assert constant < 2
        apart = float(torch.linalg.matrix_norm(a.jacobian - b.jacobian, "nuc"))
        logs = [float(p.jacobian.det().log()) for p in (a, b)]
        printed = sum(logs) + apart / 4
        assert printed > 0.35
        assert net.norm - 3 * depth == pytest.approx(3)
        assert net.norm - 3 * depth > printed
    cheaper = random_chains.lipschitz_counterexample(2000)
    rest = sum(float(p.detach().square().sum()) for p in cheaper.parameters()) - 3 * 2000
    assert rest < printed


@given(SEEDS, st.integers(2, 6), st.floats(0.0, 1.0))
@settings(max_examples=25)
def test_the_flow_of_the_statistics_closes_up_to_the_noise(seed, d, size):
    """Of `(wᵀv)²` and `‖v - w wᵀ v‖²` down the slope of the cost, by automatic differentiation."""
    w, v, noise = draw(seed, d), draw(seed + 1, d).requires_grad_(), size * draw(seed + 2, d, d)
    w = w / w.norm()
    target = torch.outer(w, w) + noise
    (slope,) = torch.autograd.grad((torch.outer(v, v) - target).square().sum(), v)
    for statistic, rate in (
        (lambda v: (w @ v).square(), lambda v: -8 * (v.square().sum() - 1)),
        (lambda v: (v - (w @ v) * w).square().sum(), lambda v: -8 * v.square().sum()),
    ):
        (by_v,) = torch.autograd.grad(statistic(v), v)
        left = float((-slope @ by_v - rate(v) * statistic(v)).detach())
        most = 8 * float(torch.linalg.matrix_norm(noise, 2)) * float(v.detach().square().sum())
        assert abs(left) <= most * (1 + 1e-9) + 1e-9 * (1 + float(slope.detach().norm()) ** 2)
