import math
from itertools import pairwise, permutations

import numpy as np
import pytest
import torch

from sigmascope.theory.jacot2023 import constructions
from sigmascope.theory.jacot2023.constructions import corrections, rank_one_fit_scaling


def draw(seed, m=5, n=4):
    return torch.randn(m, n, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


@pytest.mark.usefixtures("as_users_see_it")
def test_no_factorisation_is_cheaper_and_the_balanced_one_is_as_cheap():
    for seed in range(60):
        A, depth = draw(seed), 2 + seed % 5
        cost = constructions.linear_cost(A, depth).value
        factors = constructions.balanced_factors(A, depth, [6] * (depth - 1))
        for below, above in pairwise(factors):  # they are balanced
            assert torch.allclose(below @ below.mT, above.mT @ above)
        product = factors[0]
        for W in factors[1:]:
            product = W @ product
        assert torch.allclose(product, A)
        assert sum(float(W.square().sum()) for W in factors) == pytest.approx(cost, rel=1e-12)
        g = torch.Generator().manual_seed(seed)
        G = torch.randn(6, 6, generator=g, dtype=torch.float64)
        factors = list(factors)
        factors[0], factors[1] = G @ factors[0], factors[1] @ torch.linalg.inv(G)
        assert sum(float(W.square().sum()) for W in factors) >= cost * (1 - 1e-12)


def test_the_expansion_leaves_a_remainder_of_second_order():
    A = torch.diag(torch.tensor([3.0, 0.5, 0.0]))
    R0, R1, R2 = constructions.corrections(A)
    assert (2, pytest.approx(2 * torch.tensor(1.5).log().item())) == (R0, R1)
    logs = torch.tensor([3.0, 0.5]).log().double()
    for depth in (50, 100, 200):
        rest = constructions.linear_cost(A, depth).value - depth * R0 - R1 - R2 / depth
        assert rest * depth**2 == pytest.approx(4 / 3 * float(logs.pow(3).sum()), rel=0.05)


def test_sums_and_products_cost_at_most_their_parts():
    for seed in range(60):
        A, B = draw(seed, 4, 4), draw(seed + 1000, 4, 4)
        cost = lambda M, L: constructions.linear_cost(M, L).value
        assert cost(A + B, 3) <= cost(A, 3) + cost(B, 3) + 1e-9
        assert cost(A @ B, 5) <= cost(A, 2) + cost(B, 3) + 1e-9
        roots = [constructions.corrections(M)[2] ** 0.5 for M in (A @ B, A, B)]
        assert roots[0] <= roots[1] + roots[2] + 1e-9


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_corrections_know_the_precision_of_the_map(dtype):
    g = torch.Generator().manual_seed(0)
    A = torch.randn(20, 2, generator=g).to(dtype) @ torch.randn(2, 20, generator=g).to(dtype)
    rank, first, second = constructions.corrections(A)
    assert rank == 2
    s = torch.linalg.svdvals(A.double())[:2].log()
    assert (first, second) == pytest.approx((2 * float(s.sum()), 2 * float(s.square().sum())))


def test_zero_is_what_rounding_of_the_largest_value_could_make():
    """Eight roundings for each row: in float64 of 2 rows `3.6e-15`, in float32 `1.9e-6`."""
    for dtype, below, above in ((torch.float64, 3.5e-15, 3.6e-15), (torch.float32, 1.8e-6, 2.0e-6)):
        for small, rank in ((below, 1), (above, 2)):
            A = torch.diag(torch.tensor([1.0, small], dtype=dtype))
            assert corrections(A)[0] == rank
    assert corrections(torch.diag(torch.tensor([4.0, 0.5]).double())) == pytest.approx(
        (2, 2 * math.log(2), 2 * (math.log(4) ** 2 + math.log(2) ** 2))
    )


def proves(X, found):
    rank = int(torch.linalg.matrix_rank(X.double()))
    U = torch.linalg.svd(X.double())[2][:rank]
    assert float((X.double() @ found.embedding.mT).min()) > -1e-7
    assert torch.allclose(found.embedding.mT @ found.embedding, U.mT @ U, atol=1e-6)


def rotated(X, seed):
    Q = torch.linalg.qr(draw(seed, X.shape[1], X.shape[1]))[0]
    return X.double() @ Q


def test_hidden_orthants_are_found():
    found = 0
    for seed in range(40):
        k = 2 + seed % 3
        X = rotated(draw(seed, 12, k).abs(), seed)
        answer = constructions.complete_positivity(X)
        assert answer.answer != "no"
        if answer.answer == "yes":
            found += 1
            proves(X, answer)
    assert found == 40


def test_planar_sets_of_acute_angles_always_are():
    for seed in range(100):
        g = torch.Generator().manual_seed(seed)
        angles = torch.rand(9, generator=g, dtype=torch.float64) * torch.pi / 2
        X = torch.stack([angles.cos(), angles.sin()], dim=1) @ draw(seed, 2, 2).new_tensor(
            [[0.6, 0.8], [-0.8, 0.6]]
        )
        answer = constructions.complete_positivity(X)
        assert answer.answer == "yes"
        proves(X, answer)


@pytest.mark.parametrize(
    ("rows", "pair"),
    [
        ([[1.0, 0, 0], [0, 1, 0], [-0.1, -0.2, 1]], {1, 2}),
        ([[0.0, 0], [1, 0], [0, 0], [0.5, 0.5], [-1, 0.2]], {1, 4}),
    ],
)
def test_obtuse_angles_are_not_and_their_rows_are_named(rows, pair):
    X = torch.tensor(rows)
    answer = constructions.complete_positivity(X)
    assert answer.answer == "no"
    assert set(answer.pair) == pair
    i, j = answer.pair
    assert float(X[i] @ X[j]) < 0


@pytest.mark.usefixtures("as_users_see_it")
@pytest.mark.parametrize(
    ("ask", "says"),
    [
        (lambda: constructions.linear_cost(draw(0), 0), "`depth` must be 1 or more"),
        (lambda: constructions.balanced_factors(draw(0), 3, [4, 3]), "2 numbers of at least the"),
        (
            lambda: constructions.complete_positivity(torch.tensor([[1.0], [1.0], [torch.nan]])),
            "not in row 2",
        ),
        (lambda: rank_one_fit_scaling(torch.zeros(5, 2).double()), "three or more that differ"),
        (
            lambda: constructions.identity_stack(torch.tensor([[1.0, 0.0], [-1.0, 0.1]]), 3),
            "negative inner product",
        ),
        (lambda: constructions.identity_stack(torch.ones(2, 2), 1), "`depth` must be 2 or more"),
        (lambda: constructions.symmetry_task(1), "`dimension` must be 2 or more"),
    ],
)
def test_what_cannot_be_built_is_refused(ask, says):
    with pytest.raises(ValueError, match=says):
        ask()


def test_a_five_cycle_is_unknown():
    """Doubly non-negative and not completely positive: no embedding is claimed."""
    cycle = torch.eye(5) + 0.0
    for i in range(5):
        cycle[i, (i + 1) % 5] = cycle[(i + 1) % 5, i] = 0.615
    lam, V = torch.linalg.eigh(cycle.double())
    assert float(lam[0]) > 0
    assert constructions.complete_positivity((V * lam.sqrt()) @ V.mT).answer == "unknown"


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_rounding_of_the_points_rules_nothing_out(dtype):
    """Orthogonal points in any precision: their inner products are rounding, of either sign."""
    for seed in range(40):
        g = torch.Generator().manual_seed(seed)
        Q = torch.linalg.qr(torch.randn(5, 5, generator=g, dtype=torch.float64))[0]
        answer = constructions.complete_positivity((7.3 * Q).to(dtype)).answer
        assert answer != "no"
        wrong = (Q[0] - 1e-3 * Q[1]).to(dtype)
        assert (
            constructions.complete_positivity(torch.stack([wrong, Q[1].to(dtype)])).answer == "no"
        )


def drawn(count, k, seed=0):
    return torch.rand(count, k, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


@pytest.mark.parametrize("seed", range(20))
def test_the_interval_holds_the_shortest_path(seed):
    Y = drawn(6, 2, seed)
    d = torch.cdist(Y, Y)
    exact = min(sum(float(d[a, b]) for a, b in pairwise(p)) for p in permutations(range(6)))
    found = rank_one_fit_scaling(Y)
    assert found.length.low <= exact * (1 + 1e-9)
    assert found.length.high >= exact * (1 - 1e-9)
    assert found.length.high < 1.2 * exact
    assert found.correction.value == pytest.approx(2 * math.log(found.length.value))
    assert found.tangent.value == pytest.approx(found.length.value**2)


@pytest.mark.parametrize(("k", "theory"), [(2, 1 / 2), (3, 2 / 3)])
def test_length_grows_with_the_exponent_of_theorem_10(k, theory):
    counts = (100, 200, 400)
    ends = ("low", "high")
    logs = {
        end: [
            math.log(
                sum(getattr(rank_one_fit_scaling(drawn(n, k, s)).length, end) for s in range(2))
            )
            for n in counts
        ]
        for end in ends
    }
    for end in ends:
        slope = np.polyfit(np.log(counts), logs[end], 1)[0]
        assert slope == pytest.approx(theory, abs=0.03)


def test_points_on_a_line_cost_their_span():
    found = rank_one_fit_scaling(torch.linspace(0, 3, 40, dtype=torch.float64)[:, None])
    assert found.length.value == pytest.approx(3)


def cone(seed, n=12, k=3, d=5):
    """Points of a k-dimensional hidden orthant in d dimensions."""
    g = torch.Generator().manual_seed(seed)
    Q = torch.linalg.qr(torch.randn(d, d, generator=g, dtype=torch.float64))[0][:k]
    return torch.rand(n, k, generator=g, dtype=torch.float64) @ Q


@pytest.mark.parametrize("depth", [2, 5, 20])
def test_the_identity_costs_exactly_its_dimension_times_the_depth(depth):
    for seed in range(10):
        X = cone(seed)
        stack = constructions.identity_stack(X, depth)
        assert stack.norm == pytest.approx(3 * depth, rel=1e-7)
        for x in X:
            assert torch.allclose(stack.at(x).preactivations[-1], x, atol=1e-6)


def test_a_linear_map_costs_its_rank_and_its_determinant():
    X = torch.rand(12, 3, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    A = torch.tensor([[2.0, 0.3, 0.1], [0.2, 0.5, 0.2], [0.1, 0.1, 1.5]], dtype=torch.float64)
    rank, constant, _ = constructions.corrections(A)
    rests = []
    for depth in (10, 20, 40, 80):
        stack = constructions.linear_stack(A, X, depth)
        for x in X:
            assert torch.allclose(stack.at(x).preactivations[-1], A @ x, atol=1e-9)
        rest = stack.norm - rank * depth - constant
        assert rest >= -1e-9
        rests.append(rest * depth)
    assert rests[-1] == pytest.approx(rests[-2], rel=0.1)  # a remainder of order 1 / L


def task(**of):
    g = torch.Generator().manual_seed(3)
    return constructions.symmetry_task(7, samples=50, generator=g, **of)


def test_costs_are_those_of_gradient_descent_on_the_matrix():
    found = task(steps=4)
    v = found.starts[0].clone().requires_grad_()
    target = torch.outer(found.axis, found.axis) + found.noise
    for t in range(4):
        cost = (torch.outer(v, v) - target).square().sum()
        (slope,) = torch.autograd.grad(cost, v)
        v = (v - found.rate * slope).detach().requires_grad_()
        after = (torch.outer(v, v) - target).square().sum()
        assert float(after.detach()) == pytest.approx(float(found.costs[0, t]), rel=1e-12)


def test_without_noise_the_statistics_close():
    found = task(noise=0.0)
    u, v = found.statistics(found.starts), found.starts
    for _ in range(20):
        u, v = constructions.statistics_moved(u, found.rate), found.moved(v)
        assert torch.allclose(u, found.statistics(v), atol=1e-12)
    size = u.sum(1)
    assert torch.allclose(found.costs[:, -1], size.square() - 2 * u[:, 0] + 1)


def test_the_map_to_costs_has_rank_two_without_noise():
    found = task(noise=0.0)

    def costs(v):
        out, v = [], v[None]
        for _ in range(20):
            v = found.moved(v)
            out.append(found.cost(v)[0])
        return torch.stack(out)

    s = torch.linalg.svdvals(torch.autograd.functional.jacobian(costs, found.starts[1]))
    assert float(s[1]) > 1e-2
    assert float(s[2]) < 1e-9


def test_orbits_keep_the_statistics():
    found = task()
    orbits = found.orbits(found.starts, 6, generator=torch.Generator().manual_seed(0))
    assert orbits.shape == (50, 6, 7)
    same = found.statistics(orbits.flatten(0, 1)).unflatten(0, (50, 6))
    assert torch.allclose(same, found.statistics(found.starts)[:, None].expand(-1, 6, -1))
    assert float((orbits[:, 0] - orbits[:, 1]).norm(dim=1).median()) > 0.3


def test_two_dimensions_are_enough_for_an_axis():
    """What is across the axis is a line, of which orbits are the two ends."""
    found = constructions.symmetry_task(2, samples=9, generator=torch.Generator().manual_seed(0))
    around = found.orbits(found.starts, 5, generator=torch.Generator().manual_seed(0))
    across = around - (around @ found.axis)[..., None] * found.axis
    sizes = found.statistics(found.starts)[:, 1].sqrt()
    assert torch.allclose(across.norm(dim=-1), sizes[:, None].expand(-1, 5))
