import math

import pytest
import torch
from zoo import MATRICES, fresh

from sigmascope.linalg.random_matrix import RandomSigns, wishart_edge
from tests.linalg.random_matrix.planted import planted


def signs_of(A, seed=0, **known):
    rms = float(A.double().square().mean().sqrt())
    return RandomSigns(A, rms=rms, generator=fresh(seed), **known)


@pytest.mark.parametrize("shape", [(8, 8), (60, 12), (12, 60), (100, 100)])
def test_the_edge_is_that_of_gaussians(shape):
    law = wishart_edge(*shape)
    drawn = torch.randn(400, *shape, generator=fresh(1), dtype=torch.float64)
    top = torch.linalg.svdvals(drawn)[:, 0].square()
    error = top.std() / 20
    assert abs(law.mean - top.mean()) < 4 * error + 0.1 * law.scale
    assert wishart_edge(*shape) == wishart_edge(*shape[::-1])


@pytest.mark.parametrize("shape", [(60, 40), (700, 600)])
def test_a_draw_is_the_norm_of_the_same_entries_with_random_signs(shape):
    A = torch.randn(shape, generator=fresh()) * torch.logspace(0, 1, shape[1])
    found = signs_of(A).baseline
    tops = [
        float(
            torch.linalg.matrix_norm(
                A * (torch.randint(0, 2, shape, generator=fresh(i)) * 2 - 1), 2
            )
        )
        for i in range(6)
    ]
    spread = max(tops) - min(tops)
    assert found.low <= found.value < found.high
    assert min(tops) - 3 * spread <= found.high
    assert found.low <= max(tops) + 3 * spread
    assert found.value == pytest.approx(sum(tops) / 6, rel=0.05)


def test_magnitudes_are_kept_and_half_of_the_signs_turn():
    A = torch.randn(50, 41, generator=fresh())
    flipped = signs_of(A)._flipped()
    assert torch.equal(flipped.abs(), A.abs())
    turned = (flipped != A).double().mean()
    assert 0.45 < turned < 0.55
    assert torch.equal(A, torch.randn(50, 41, generator=fresh()))  # the matrix itself is left alone


@pytest.mark.parametrize("panel", [8, 100, 2**18])
def test_signs_are_independent_whatever_the_panels(panel, monkeypatch):
    monkeypatch.setattr("sigmascope.linalg.random_matrix.PANEL", panel)
    flipped = signs_of(torch.ones(60, 50))._flipped()
    assert abs(flipped.mean()) < 0.08
    assert float(torch.linalg.matrix_norm(flipped, 2)) < 1.2 * (math.sqrt(60) + math.sqrt(50))


def test_even_entries_need_no_draw():
    A = torch.randn(80, 70, generator=fresh())
    rms = float(A.double().square().mean().sqrt())
    even = {"longest": (rms * math.sqrt(70), rms * math.sqrt(80)), "largest": 4 * rms}
    plain = signs_of(A, **even)
    assert plain.plain
    assert plain.excess == 1
    assert plain.baseline.how == "as of Gaussians"
    assert not signs_of(A).plain
    assert not signs_of(A, **{**even, "largest": 8 * rms}).plain
    assert not signs_of(A, longest=(1.1 * rms * math.sqrt(70), rms * math.sqrt(80))).plain


def test_uneven_entries_exceed_gaussians():
    A = torch.randn(80, 70, generator=fresh())
    assert signs_of(A).excess == 1
    uneven = A * (1 + 9 * (torch.arange(70) == 4))
    exact = float(torch.linalg.matrix_norm(uneven.double(), 2))
    found = signs_of(uneven)
    assert found.excess * found.expected == pytest.approx(exact, rel=0.1)
    assert found.sure_excess() >= 0.95 * found.excess


def test_a_surer_excess_is_seldom_exceeded():
    A = torch.randn(40, 30, generator=fresh()) * (torch.rand(40, 30, generator=fresh(1)) < 0.05)
    expected = signs_of(A).expected
    single = [signs_of(A, seed)._draw(24) / expected for seed in range(20, 60)]
    sure = [signs_of(A, seed).sure_excess() for seed in range(20)]
    assert sum(x > s for x in single for s in sure) / (40 * 20) < 0.15


def test_spikes_are_taken_off_before_signs_are_drawn_again():
    A = torch.randn(90, 70, generator=fresh()) * (1 + 9 * (torch.arange(70) % 35 == 0))
    own, hidden = signs_of(A).excess, signs_of(planted(A, [6.0]).float())
    assert hidden.excess < 0.75 * own
    assert hidden.without(1).excess == pytest.approx(own, rel=0.1)


def test_nothing_is_left_of_a_matrix_of_low_rank():
    left = signs_of(torch.zeros(20, 12) + 1.0).without(1)
    assert left.excess >= 1
    assert math.isfinite(left.excess)
    exact = RandomSigns(torch.zeros(9, 9), rms=0.0, generator=fresh())
    assert exact.excess == 1


@pytest.mark.parametrize("case", [n for n, A in MATRICES.items() if A.any() and min(A.shape) > 7])
def test_hostile_matrices_have_a_finite_excess(case):
    A = MATRICES[case]
    scale = float(A.double().abs().max())
    found = signs_of((A.double() / scale).float())
    assert 1 <= found.excess < 2 * math.sqrt(max(A.shape))


def test_what_is_left_takes_no_second_copy():
    A = torch.randn(60, 50, generator=fresh())
    own, left = signs_of(A), signs_of(A).without(1)
    assert own._flipped().data_ptr() != A.data_ptr()
    assert left._flipped().data_ptr() == left.A.data_ptr() != A.data_ptr()
    magnitudes = left.A.abs()
    assert left.baseline.value > 0
    assert torch.equal(left.A.abs(), magnitudes)
