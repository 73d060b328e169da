import pytest
import torch

from sigmascope.theory import jacot2023


def cone(seed, n=12, k=3, d=5):
    """Points of a k-dimensional hidden orthant in d dimensions."""
    g = torch.Generator().manual_seed(seed)
    Q = torch.linalg.qr(torch.randn(d, d, generator=g, dtype=torch.float64))[0][:k]
    return torch.rand(n, k, generator=g, dtype=torch.float64) @ Q


@pytest.mark.parametrize("depth", [2, 5, 20])
def test_the_identity_costs_exactly_its_dimension_times_the_depth(depth):
    for seed in range(10):
        X = cone(seed)
        stack = jacot2023.constructions.identity_stack(X, depth)
        assert stack.norm == pytest.approx(3 * depth, rel=1e-7)
        for x in X:
            assert torch.allclose(stack.at(x).preactivations[-1], x, atol=1e-6)


def test_a_linear_map_costs_its_rank_and_its_determinant():
    X = torch.rand(12, 3, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    A = torch.tensor([[2.0, 0.3, 0.1], [0.2, 0.5, 0.2], [0.1, 0.1, 1.5]], dtype=torch.float64)
    rank, constant, _ = jacot2023.constructions.corrections(A)
    rests = []
    for depth in (10, 20, 40, 80):
        stack = jacot2023.constructions.linear_stack(A, X, depth)
        for x in X:
            assert torch.allclose(stack.at(x).preactivations[-1], A @ x, atol=1e-9)
        rest = stack.norm - rank * depth - constant
        assert rest >= -1e-9
        rests.append(rest * depth)
    assert rests[-1] == pytest.approx(rests[-2], rel=0.1)  # a remainder of order 1 / L


def test_points_at_obtuse_angles_are_refused():
    X = torch.tensor([[1.0, 0.0], [-1.0, 0.1]])
    with pytest.raises(ValueError, match="negative inner product"):
        jacot2023.constructions.identity_stack(X, 3)
    with pytest.raises(ValueError, match="`depth` must be 2 or more"):
        jacot2023.constructions.identity_stack(X.abs(), 1)
