"""Complete positivity: a yes has its embedding, a no its pair, and rounding rules nothing out."""

import pytest
import torch

from sigmascope.theory import jacot2023
from tests.theory.jacot2023.constructions.drawn import draw


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
