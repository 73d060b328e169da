import pytest
import torch
from hypothesis import given, strategies as st
from zoo import SYMMETRIC, fresh

from sigmascope.linalg import soft_rank
from sigmascope.linalg.spectra import _reaching, count_above, counts_above, spectrum


@pytest.mark.parametrize("case", SYMMETRIC)
def test_counts_between_and_at_eigenvalues(case):
    M = SYMMETRIC[case]
    lam = torch.linalg.eigvalsh(M.double())
    top = lam.abs().amax().item() or 1.0
    for tau in [0.0, *(lam + 0.01 * top).tolist(), *(lam - 0.01 * top).tolist()]:
        e = count_above(M, tau)
        surely = int((lam >= tau + 1e-9 * top).sum())
        possibly = int((lam >= tau - 1e-9 * top).sum())
        assert surely <= e.low <= e.value <= e.high <= possibly, tau
    for tau in lam.tolist():
        e = count_above(M, tau)
        assert e.low <= int((lam >= tau).sum()) <= e.high


def test_the_identity_has_all_its_eigenvalues_at_one():
    for d in (1, 2, 7, 64):
        e = count_above(torch.eye(d), 1.0)
        assert e.value == d
        assert (e.low, e.high) == (0, d)
        assert count_above(torch.eye(d), 1 + 1e-9).high == 0
        assert count_above(torch.eye(d), 1 - 1e-9).low == d


def test_zero_at_zero():
    e = count_above(torch.zeros(3, 3), 0.0)
    assert (e.low, e.value, e.high) == (3, 3, 3)
    assert count_above(torch.zeros(3, 3), 1e-300).value == 0


def test_pivots_of_size_two_are_counted_once_each():
    blocks = [torch.tensor([[0.0, c], [c, 0.0]]) for c in (1.0, 2.0, 3.0)]
    M = torch.block_diag(*blocks, torch.tensor([[5.0]]))
    assert count_above(M, 0.0).value == count_above(M, 0.0).low == 4
    assert count_above(M, 2.5).value == 2
    assert count_above(M, -2.5).value == 6


@given(seed=st.integers(0, 10**6), d=st.integers(1, 40), quantile=st.floats(0, 1))
def test_agrees_with_eigenvalues(seed, d, quantile):
    M = torch.randn(d, d, generator=fresh(seed), dtype=torch.float64)
    M = M + M.mT - torch.diag(M.diagonal())  # often indefinite: both pivot sizes occur
    lam = torch.linalg.eigvalsh(M)
    tau = torch.quantile(lam, quantile).item() + 1e-6
    e = count_above(M, tau)
    assert e.low == e.high == int((lam >= tau).sum())
    assert e.risk == 0
    assert e.how == "inertia"


@given(seed=st.integers(0, 10**6), c=st.sampled_from([1e-250, 1e-20, 1e20, 1e250]))
def test_scale_invariance(seed, c):
    M = torch.randn(9, 9, generator=fresh(seed), dtype=torch.float64)
    M = M + M.mT
    assert count_above(c * M, c * 0.7) == count_above(M, 0.7)


def test_is_the_soft_rank_of_a_correlation_matrix():
    H = torch.randn(60, 20, generator=fresh(), dtype=torch.float64)
    for tau in (0.3, 0.5, 1.2):
        assert count_above(H.mT @ H / 60, tau).value == soft_rank(spectrum(H), tau).value


def test_growth_widens_the_shift_rather_than_the_claim():
    # Bunch-Kaufman multipliers of 1e8: the count must stay right or admit doubt
    for small in (1e-4, 1e-8, 1e-12):
        M = torch.tensor([[small**2, small, 0.0], [small, 0.0, 1.0], [0.0, 1.0, 0.0]]).double()
        lam = torch.linalg.eigvalsh(M)
        for tau in (0.0, 0.5, small):
            e = count_above(M, tau)
            assert e.low <= int((lam >= tau).sum()) <= e.high


def test_rounding_in_the_symmetry_of_float32_is_accepted():
    H = torch.randn(50, 30, generator=fresh())
    M = H.mT @ H
    M[3, 4] *= 1 + 1e-6
    assert count_above(M, 1.0).value == int((torch.linalg.eigvalsh(M.double()) >= 1).sum())


def test_widens_the_shift_until_it_covers_the_rounding(monkeypatch):
    shifts = []

    def coarse(S, shift):
        shifts.append(shift)
        return (3, 1e9)

    monkeypatch.setattr("sigmascope.linalg.spectra._reaching", coarse)
    assert count_above(torch.eye(3), 0.5).value == 3
    assert len(shifts) == 4
    assert shifts[3] - 0.5 > 1e3 * (shifts[1] - 0.5) > 0


def test_admits_that_nothing_is_known_when_no_shift_covers_the_rounding(monkeypatch):
    monkeypatch.setattr(
        "sigmascope.linalg.spectra._reaching",
        lambda S, shift: (2, 1e30 * abs(shift)),
    )
    e = count_above(torch.eye(3), 0.5)
    assert (e.low, e.value, e.high) == (0, 3, 3)


@pytest.mark.parametrize("d", [1, 2, 3, 8, 33])
def test_many_counts_are_those_of_one_at_a_time(d):
    g = torch.Generator().manual_seed(d)
    A = torch.randn(5, 4, d, d, generator=g, dtype=torch.float64)
    M = A + A.mT
    for tau in (-1.0, 0.0, 0.7):
        expected = (torch.linalg.eigvalsh(M) >= tau).sum(-1).double()
        assert torch.equal(counts_above(M, tau), expected)


def test_many_counts_take_ties_with_the_threshold():
    many = torch.eye(6, dtype=torch.float64).expand(3, 6, 6)
    assert counts_above(many, 1.0).tolist() == [6, 6, 6]
    assert counts_above(many, 1 + 1e-9).tolist() == [0, 0, 0]


def test_many_counts_see_blocks_of_size_two():
    """Zero diagonals make every pivot a block of one positive and one negative eigenvalue."""
    block = torch.tensor([[0.0, 1.0], [1.0, 0.0]], dtype=torch.float64)
    M = torch.block_diag(block, block, block)[None]
    assert counts_above(M, 0.5).tolist() == [3]


def test_the_growth_of_a_block_of_two():
    """`[[0, 1], [1, 0]]` is one block: one value above 0, `|L||D||Lᵀ|` is the matrix itself."""
    assert _reaching(torch.tensor([[0.0, 1.0], [1.0, 0.0]], dtype=torch.float64), 0.0) == (1, 1.0)
    # twice the identity less one: two values at 1, no growth
    assert _reaching(2 * torch.eye(2, dtype=torch.float64), 1.0) == (2, 1.0)
    assert _reaching(torch.eye(2, dtype=torch.float64), 1.0)[0] == 2  # at zero counts
