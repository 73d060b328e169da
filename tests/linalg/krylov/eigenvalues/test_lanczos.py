import pytest
import torch
from hypothesis import given, strategies as st
from zoo import SYMMETRIC, fresh

from sigmascope.linalg.krylov import Operator, eigenvalues, krylov_space
from sigmascope.linalg.krylov.singular_values import Basis


def symmetric(n=40):
    A = torch.randn(n, n, generator=fresh(9), dtype=torch.float64)
    return A + A.mT


@pytest.mark.parametrize("case", SYMMETRIC)
def test_a_whole_space_holds_the_matrix(case):
    M = SYMMETRIC[case].double()
    size = float(torch.linalg.matrix_norm(M, 2))
    found = krylov_space(Operator.of(M), steps=10**6, generator=fresh())
    assert found.complete
    assert found.steps == len(M)
    eye = torch.eye(len(M), dtype=torch.float64)
    assert torch.allclose(found.basis.mT @ found.basis, eye, atol=1e-13)
    inside = found.basis @ found.matrix @ found.basis.mT
    assert float((inside - M).abs().max()) <= found.rounding + 1e-300
    values, _, residuals = found.ritz()
    assert torch.allclose(values, torch.linalg.eigvalsh(M), rtol=0, atol=1e-12 * size)
    assert float(residuals.max()) <= 1e-12 * size


def test_a_part_of_the_space_knows_what_it_leaves_out():
    A = symmetric()
    found = krylov_space(Operator.of(A), steps=7, generator=fresh())
    V, T = found.basis, found.matrix
    assert not found.complete
    assert torch.allclose(V.mT @ V, torch.eye(7, dtype=V.dtype), atol=1e-14)
    assert torch.allclose(V.mT @ A @ V, T, atol=1e-13)
    outside = A @ V - V @ T
    assert float(outside.norm()) == pytest.approx(found.rest, rel=1e-10)
    assert float(outside[:, :-1].norm()) <= 1e-12 * found.rest  # all of it is in the last column
    values, vectors, residuals = found.ritz()
    pairs = V @ vectors
    assert torch.allclose((A @ pairs - pairs * values).norm(dim=0), residuals, atol=1e-12)


@given(
    decades=st.floats(0, 12),
    spikes=st.lists(st.floats(-1e6, 1e6), max_size=3),
    steps=st.integers(2, 90),
    seed=st.integers(0, 99),
    dtype=st.sampled_from((torch.float64, torch.float32)),
)
def test_whatever_the_spectrum_the_basis_is_orthonormal_to_rounding(
    decades, spikes, steps, seed, dtype
):
    values = torch.cat([torch.tensor(spikes).double(), torch.logspace(0, -decades, 80).double()])
    Q = torch.linalg.qr(torch.randn(len(values), len(values), generator=fresh(seed)).double())[0]
    A = (Q * values) @ Q.mT
    V = krylov_space(Operator.of((A + A.mT).to(dtype)), steps=steps, generator=fresh(seed)).basis
    apart = V.mT @ V - torch.eye(V.shape[1], dtype=V.dtype)
    assert float(apart.abs().max()) <= 64 * torch.finfo(dtype).eps


@pytest.mark.parametrize("outside", [1.0, 1e-3, 1e-6])
def test_a_direction_that_lies_nearly_inside_is_made_orthogonal_all_the_same(outside):
    basis = Basis(200, 9, Operator.of(symmetric(200)), fresh())
    for _ in range(8):
        basis.restart()
    drawn = torch.randn(208, generator=fresh(1), dtype=torch.float64)
    basis.extend((drawn[:8] @ basis.rows[:8] + outside * drawn[8:])[:, None])
    eye = torch.eye(9, dtype=torch.float64)
    assert torch.allclose(basis.rows @ basis.rows.T, eye, atol=1e-14)


def test_a_space_that_is_exhausted_begins_again():
    found = krylov_space(Operator.of(3 * torch.eye(6, dtype=torch.float64)), generator=fresh())
    assert found.complete
    assert torch.allclose(found.matrix, 3 * torch.eye(6, dtype=torch.float64), atol=1e-14)


def test_a_start_half_way_to_a_direction():
    u = torch.zeros(40, dtype=torch.float64)
    u[3] = 5.0
    found = krylov_space(Operator.of(symmetric()), steps=1, towards=u, generator=fresh())
    drawn = found.basis[:, 0] - found.random * u / 5
    assert float(drawn.norm()) == pytest.approx(found.random, rel=1e-12)
    plain = krylov_space(Operator.of(symmetric()), steps=1, generator=fresh())
    assert torch.allclose(drawn / found.random, plain.basis[:, 0], atol=1e-14)
    assert plain.random == 1
    nothing = krylov_space(Operator.of(symmetric()), steps=1, towards=0 * u, generator=fresh())
    assert (nothing.random, nothing.basis.tolist()) == (1, plain.basis.tolist())


def test_it_stops_when_the_ends_that_were_asked_for_have_settled():
    values = torch.cat([torch.linspace(-1, 1, 120), torch.tensor([9.0, -1.2])]).double()
    A = Operator.of(torch.diag(values))
    steps = {}
    for sides, end in (("top", 9.0), ("both", -1.2), ("bottom", -1.2)):
        found = krylov_space(A, steps=100, tolerance=1e-3, sides=sides, generator=fresh())
        ritz = found.ritz()[0]
        assert abs(float(ritz[-1] if end > 0 else ritz[0]) - end) <= 9e-3
        steps[sides] = found.steps
    assert steps["top"] < steps["bottom"] <= steps["both"] < 100
    tight = krylov_space(A, steps=122, tolerance=1e-9, sides="top", generator=fresh())
    assert steps["top"] < tight.steps < 122


def test_ends_are_looked_at_after_each_step_and_rarely_in_long_runs(monkeypatch):
    A = Operator.of(torch.diag(torch.linspace(-1, 1, 900, dtype=torch.float64)))
    seen = []
    settled = eigenvalues._settled
    monkeypatch.setattr(
        eigenvalues, "_settled", lambda T, *rest: seen.append(len(T)) or settled(T, *rest)
    )
    ends = krylov_space(A, steps=512, tolerance=1e-12, generator=fresh())
    assert seen[:31] == [*range(1, 32)]
    assert len(seen) < 90
    assert seen[-1] == ends.steps < 512
    assert ends.steps - seen[-2] <= 1 + ends.steps // eigenvalues.RARELY
