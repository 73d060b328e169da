import math
from itertools import pairwise

import pytest
import torch

from sigmascope.theory import jacot2023
from sigmascope.theory.jacot2023.constructions import corrections
from tests.theory.jacot2023.constructions.drawn import draw


@pytest.mark.usefixtures("as_users_see_it")
def test_no_factorisation_is_cheaper_and_the_balanced_one_is_as_cheap():
    for seed in range(60):
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
    for seed in range(60):
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


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64], ids=str)
def test_corrections_know_the_precision_of_the_map(dtype):
    g = torch.Generator().manual_seed(0)
    A = torch.randn(20, 2, generator=g).to(dtype) @ torch.randn(2, 20, generator=g).to(dtype)
    rank, first, second = jacot2023.constructions.corrections(A)
    assert rank == 2
    s = torch.linalg.svdvals(A.double())[:2].log()
    assert (first, second) == pytest.approx((2 * float(s.sum()), 2 * float(s.square().sum())))


def test_zero_is_what_rounding_of_the_largest_value_could_make():
    """Eight roundings for each row: in float64 of 2 rows `3.6e-15`, in float32 `1.9e-6`."""
    for dtype, below, above in (
        (torch.float64, 3.5e-15, 3.6e-15),
        (torch.float32, 1.8e-6, 2.0e-6),
    ):
        for small, rank in ((below, 1), (above, 2)):
            A = torch.diag(torch.tensor([1.0, small], dtype=dtype))
            assert corrections(A)[0] == rank
    assert corrections(torch.diag(torch.tensor([4.0, 0.5]).double())) == pytest.approx(
        (2, 2 * math.log(2), 2 * (math.log(4) ** 2 + math.log(2) ** 2))
    )
