import numpy as np
import pytest
import torch
from hypothesis import given, strategies as st

from sigmascope.linalg import singular_value_derivative, skip_trajectory


def gaussian(*shape, seed):
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(*shape, generator=generator, dtype=torch.float64)


@given(seed=st.integers(0, 10**6), n=st.integers(1, 7), m=st.integers(1, 7))
def test_derivatives_are_differences(seed, m, n):
    A, dA = gaussian(m, n, seed=seed), gaussian(m, n, seed=seed + 1)
    found = singular_value_derivative(A, dA, gap=1e-3)
    h = 1e-6
    ahead, behind = (torch.linalg.svdvals(A + sign * h * dA) for sign in (1, -1))
    central = (ahead - behind) / (2 * h)
    assert torch.allclose(found.slope[found.simple], central[found.simple], atol=1e-4)


def test_multiple_and_zero_values_have_no_derivative():
    A = torch.diag(torch.tensor([2.0, 2.0, 1.0, 0.0]))
    found = singular_value_derivative(A, torch.ones(4, 4))
    assert found.simple.tolist() == [False, False, True, False]
    assert found.slope.isnan().tolist() == [True, True, False, True]


def test_crossings_are_followed():
    M = torch.diag(torch.tensor([-0.4, -0.2, -0.1], dtype=torch.float64))
    found = skip_trajectory(M, [0, 0.1, 0.3, 0.5, 1])
    expected = (torch.tensor([0.4, 0.2, 0.1]) - torch.tensor([[0], [0.1], [0.3], [0.5], [1]])).abs()
    assert torch.allclose(found.sigma, expected.double(), atol=1e-7)
    assert torch.allclose(found.sorted[:, 0], torch.tensor([0.4, 0.3, 0.2, 0.4, 0.9]).double())
    assert found.slope[0].tolist() == pytest.approx([-1, -1, -1])
    assert found.slope[-1].tolist() == pytest.approx([1, 1, 1])
    assert not found.simple[2, :2].any()  # where two of them meet


def test_figure_2b():
    W = torch.tensor(np.random.default_rng(0).normal(0, 0.3, (15, 15)))
    found = skip_trajectory(W, torch.linspace(0, 1, 251).tolist())
    assert torch.equal(found.sigma, found.sorted)  # generic: nothing crosses
    assert found.sigma[0, [0, -1]].tolist() == pytest.approx([2.1949, 0.04099], abs=5e-5)
    assert found.sigma[-1, [0, -1]].tolist() == pytest.approx([2.6432, 0.01392], abs=5e-5)
    turns = (found.sigma.diff(dim=0).sign().diff(dim=0) != 0).sum(0).tolist()
    assert turns == [1, 0, 0, 0, 2, 1, 2, 3, 0, 1, 0, 2, 2, 2, 6]


def test_avoided_crossings_are_not_jumped_over():
    W = torch.tensor(np.random.default_rng(0).normal(0, 0.3, (15, 15)))
    found = skip_trajectory(W, [0, 1])
    assert torch.equal(found.sigma, found.sorted)


@given(seed=st.integers(0, 10**6))
def test_slopes_are_cosines_and_differences(seed):
    M = gaussian(5, 5, seed=seed)
    found = skip_trajectory(M, [0.3, 0.3 + 1e-6])
    assert bool((found.slope[found.simple].abs() <= 1 + 1e-12).all())
    differences = found.sigma.diff(dim=0)[0] / 1e-6
    sure = found.simple.all(0) & (found.sigma.min(0).values > 0.05)
    apart = (found.sigma[0, :, None] - found.sigma[0]).abs() + 10 * torch.eye(5)
    sure &= apart.min(0).values > 0.05
    assert torch.allclose(differences[sure], found.slope[0][sure], atol=1e-3)


@pytest.mark.parametrize(
    "M", [torch.zeros(3, 3), torch.eye(4), torch.linalg.qr(gaussian(6, 6, seed=2))[0]], ids=len
)
def test_values_that_coincide_all_along(M):
    rhos = [0, 0.25, 0.5, 1, 2]
    found = skip_trajectory(M, rhos)
    for rho, row in zip(rhos, found.sorted, strict=True):
        true = torch.linalg.svdvals(M.double() + rho * torch.eye(len(M)).double())
        assert torch.allclose(row, true, atol=1e-12)


def test_symmetric_matrices_move_along_straight_lines():
    Q = torch.linalg.qr(gaussian(6, 6, seed=3))[0]
    lam = torch.tensor([3.0, -2.5, 1.0, -0.5, 0.2, -4.0]).double()
    found = skip_trajectory(Q @ torch.diag(lam) @ Q.mT, [0, 0.25, 0.5, 1, 2])
    by_size = lam[lam.abs().argsort(descending=True)]
    for rho, row in zip(found.rhos, found.sigma, strict=True):
        assert torch.allclose(row, (by_size + rho).abs(), atol=1e-12)


@pytest.mark.parametrize("rhos", [[], [0, 2, 1], [0, 1, 1], [0, float("nan")], [0, float("inf")]])
def test_strengths_must_ascend(rhos):
    with pytest.raises(ValueError, match="`rhos` must be ascending"):
        skip_trajectory(torch.eye(2), rhos)


def test_shapes_are_refused(as_users_see_it):
    with pytest.raises(ValueError, match="`M` must be square"):
        skip_trajectory(torch.ones(2, 3), [0])
    with pytest.raises(ValueError, match="`dA` must have the shape"):
        singular_value_derivative(torch.eye(2), torch.eye(3))
