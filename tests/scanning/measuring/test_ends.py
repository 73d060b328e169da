import math

import pytest
import torch
from zoo import MATRICES, fresh

from sigmascope.linalg.entries import entries
from sigmascope.linalg.krylov import leading, tamed
from sigmascope.scanning.measuring import BRIEF, USUAL, ends_of, leading_of, no_ends, off
from tests.scanning.made import task


def ends(A, effort="full"):
    X, power = tamed(A)
    seen = entries(A, str(A.dtype)[6:], power=power)
    return ends_of(X, leading_of(task(A, effort, paired=True), X, seen), seen)


def sine(x, y):
    """Of the angle between the lines of two unit vectors."""
    y = y * torch.sign(x @ y)
    return float((x - y).norm())


@pytest.mark.parametrize("case", [name for name, A in MATRICES.items() if A.any()])
def test_vectors_are_the_leading_ones_up_to_what_is_said(case):
    A = MATRICES[case]
    found = ends(A)
    U, sigma, Vt = torch.linalg.svd(tamed(A.double())[0], full_matrices=False)
    assert 0 <= found.off <= 1
    assert found.writes.norm() == pytest.approx(1, abs=1e-5)
    assert found.reads.norm() == pytest.approx(1, abs=1e-5)
    clear = len(sigma) == 1 or sigma[1] < 0.98 * sigma[0]
    if clear:
        assert found.off < 1e-3
        assert sine(U[:, 0], found.writes) <= 1.01 * found.off + 1e-12
        assert sine(Vt[0], found.reads) <= 1.01 * found.off + 1e-12
    elif sigma[1] > (1 - 1e-12) * sigma[0]:
        assert found.off == 1


def test_vectors_of_a_run_that_is_not_finished_are_off_by_no_more_than_is_said():
    said = []
    for seed in range(20):
        A = torch.randn(300, 250, generator=fresh(seed), dtype=torch.float64)
        found = leading(A, block=4, steps=2 + seed % 6, vectors=2, generator=fresh(seed))
        U, _, Vt = torch.linalg.svd(A, full_matrices=False)
        said.append(off(found, A, 1))
        if said[-1] < 1:
            assert sine(U[:, 0], found.left[:, 0]) <= said[-1] * 1.1
            assert sine(Vt[0], found.right[:, 0]) <= said[-1] * 1.1
    assert max(said) == 1


def test_a_span_is_off_by_its_residual_over_its_gap():
    A = torch.diag(torch.tensor([4.0, 3.0, 1.0, 0.5, 0.1], dtype=torch.float64))
    found = leading(A, generator=fresh())
    for k in (1, 2, 3, 4, 5):
        assert 0 < off(found, A, k) < 1e-12
    flat = torch.eye(5, dtype=torch.float64)
    assert off(leading(flat, generator=fresh()), flat, 2) == 1
    assert off(leading(flat, generator=fresh()), flat, 5) < 1e-12


@pytest.mark.parametrize(("effort", "steps"), [("leading", USUAL), ("full", BRIEF)])
def test_steps_and_vectors_are_as_many_as_are_needed(effort, steps):
    A = torch.randn(300, 250, generator=fresh())
    seen = entries(A, "float32")
    found = leading_of(task(A, effort, paired=True), A, seen)
    assert found.spectrum.how == f"block krylov(16 x {steps}, float32)"
    assert found.left.shape == (300, 2)
    assert leading_of(task(A, effort), A, seen).left.shape == (300, 0)
    again = leading_of(task(A, effort, paired=True), A, seen)
    assert torch.equal(found.left, again.left)


def test_what_is_zero_has_no_ends():
    A = torch.zeros(4, 3)
    found = no_ends(entries(A, "float32"))
    assert found.zero
    assert found.off == 1
    assert found.writes.shape == (4,)
    assert found.reads.shape == (3,)


def test_weights_are_in_a_unit_of_their_own():
    A = MATRICES["float64 at 1e200"]
    found = ends(A)
    unit = 2.0**found.power
    torch.testing.assert_close(found.rows, (A / unit).square().sum(1))
    torch.testing.assert_close(found.cols, (A / unit).square().sum(0))
    assert math.isfinite(found.rows.sum())
