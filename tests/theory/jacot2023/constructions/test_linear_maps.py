from itertools import pairwise

import pytest
import torch

from sigmascope.theory import jacot2023


def draw(seed, m=5, n=4):
    return torch.randn(m, n, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


@pytest.mark.usefixtures("as_users_see_it")
def test_no_factorisation_is_cheaper_and_the_balanced_one_is_as_cheap():
    for seed in range(200):
        A, depth = draw(seed), 2 + seed % 5
        cost = jacot2023.constructions.linear_cost(A, depth).value
        factors = jacot2023.constructions.balanced_factors(A, depth, [6] * (depth - 1))
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


def test_balanced_factors_are_balanced():
    factors = jacot2023.constructions.balanced_factors(draw(0), 4)
    for below, above in pairwise(factors):
        assert torch.allclose(below @ below.mT, above.mT @ above)


def test_the_expansion_leaves_a_remainder_of_second_order():
    A = torch.diag(torch.tensor([3.0, 0.5, 0.0]))
    R0, R1, R2 = jacot2023.constructions.corrections(A)
    assert (2, pytest.approx(2 * torch.tensor(1.5).log().item())) == (R0, R1)
    logs = torch.tensor([3.0, 0.5]).log().double()
    for depth in (50, 100, 200):
        rest = jacot2023.constructions.linear_cost(A, depth).value - depth * R0 - R1 - R2 / depth
        assert rest * depth**2 == pytest.approx(4 / 3 * float(logs.pow(3).sum()), rel=0.05)


def test_sums_and_products_cost_at_most_their_parts():
    for seed in range(200):
        A, B = draw(seed, 4, 4), draw(seed + 1000, 4, 4)
        cost = lambda M, L: jacot2023.constructions.linear_cost(M, L).value
        assert cost(A + B, 3) <= cost(A, 3) + cost(B, 3) + 1e-9
        assert cost(A @ B, 5) <= cost(A, 2) + cost(B, 3) + 1e-9
        roots = [jacot2023.constructions.corrections(M)[2] ** 0.5 for M in (A @ B, A, B)]
        assert roots[0] <= roots[1] + roots[2] + 1e-9


def test_refusals():
    with pytest.raises(ValueError, match="`depth` must be 1 or more"):
        jacot2023.constructions.linear_cost(draw(0), 0)
    with pytest.raises(ValueError, match="2 numbers of at least the rank 4"):
        jacot2023.constructions.balanced_factors(draw(0), 3, [4, 3])


# Complete positivity


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
        answer = jacot2023.constructions.complete_positivity(X)
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
        answer = jacot2023.constructions.complete_positivity(X)
        assert answer.answer == "yes"
        proves(X, answer)


def test_obtuse_angles_are_not():
    X = torch.tensor([[1.0, 0, 0], [0, 1, 0], [-0.1, -0.2, 1]])
    answer = jacot2023.constructions.complete_positivity(X)
    assert answer.answer == "no"
    i, j = answer.pair
    assert float(X[i] @ X[j]) < 0


def test_a_five_cycle_is_unknown():
    """Doubly non-negative and not completely positive: no embedding is claimed."""
    cycle = torch.eye(5) + 0.0
    for i in range(5):
        cycle[i, (i + 1) % 5] = cycle[(i + 1) % 5, i] = 0.615
    lam, V = torch.linalg.eigh(cycle.double())
    assert float(lam[0]) > 0
    assert jacot2023.constructions.complete_positivity((V * lam.sqrt()) @ V.mT).answer == "unknown"


def test_points_that_are_not_finite_are_refused():
    X = torch.ones(4, 2)
    X[2, 1] = torch.nan
    with pytest.raises(ValueError, match="not in row 2"):
        jacot2023.constructions.complete_positivity(X)


def test_the_pair_names_rows_of_the_points_as_they_were_given():
    X = torch.tensor([[0.0, 0.0], [1.0, 0.0], [0.0, 0.0], [0.5, 0.5], [-1.0, 0.2]])
    assert set(jacot2023.constructions.complete_positivity(X).pair) == {1, 4}


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_rounding_of_the_points_rules_nothing_out(dtype):
    """Orthogonal points in any precision: their inner products are rounding, of either sign."""
    for seed in range(40):
        g = torch.Generator().manual_seed(seed)
        Q = torch.linalg.qr(torch.randn(5, 5, generator=g, dtype=torch.float64))[0]
        answer = jacot2023.constructions.complete_positivity((7.3 * Q).to(dtype)).answer
        assert answer != "no"
        wrong = (Q[0] - 1e-3 * Q[1]).to(dtype)
        assert (
            jacot2023.constructions.complete_positivity(torch.stack([wrong, Q[1].to(dtype)])).answer
            == "no"
        )


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_corrections_know_the_precision_of_the_map(dtype):
    g = torch.Generator().manual_seed(0)
    A = torch.randn(20, 2, generator=g).to(dtype) @ torch.randn(2, 20, generator=g).to(dtype)
    rank, first, second = jacot2023.constructions.corrections(A)
    assert rank == 2
    s = torch.linalg.svdvals(A.double())[:2].log()
    assert (first, second) == pytest.approx((2 * float(s.sum()), 2 * float(s.square().sum())))
