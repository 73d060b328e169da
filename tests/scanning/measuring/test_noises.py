import pytest
import torch
from zoo import fresh

from sigmascope.linalg.random_matrix import RandomSigns
from sigmascope.scanning.measuring import NOISE, TAIL, measure
from tests.linalg.random_matrix.planted import LAWS, planted
from tests.scanning.made import EVERY, task


def tailed(g, noise):
    """Squared singular values of exponent 2.5, of directions at random, and some noise."""
    U, V = (torch.linalg.qr(torch.randn(d, 100, generator=g).double())[0] for d in (200, 150))
    u = torch.rand(100, generator=g).double()
    return U * u ** (-1 / 3) @ V.mT + noise * torch.randn(200, 150, generator=g).double()


MADE = {
    **{law: make(fresh(1), 120, 90) for law, make in LAWS.items()},
    **{f"{law}, 3 spikes": planted(make(fresh(2), 90, 120), [4.0, 3.0, 2.0])
       for law, make in LAWS.items()},
    **{f"{law}, 20 spikes": planted(make(fresh(3), 150, 120), [4.0] * 20)
       for law, make in LAWS.items()},
    **{f"tail {seed}, noise {noise}": tailed(fresh(seed), noise)
       for seed in range(4) for noise in (0.0, 0.05, 0.1, 0.2)},
}  # fmt: skip


def said(A, wanted):
    found = measure(task(A, wanted=wanted), A)[0]
    readings = [r for r in found.readings if r.quantity in TAIL]
    return readings, [s for s in found.skipped if any(name in s.what for name in TAIL)]


@pytest.mark.parametrize("A", MADE.values(), ids=MADE)
def test_the_tail_is_the_same_whether_noise_is_asked_for_or_not(A):
    assert said(A, frozenset(TAIL)) == said(A, EVERY)


def test_tails_are_read_and_refused_for_want_of_spikes():
    """Else the test above could not fail."""
    seen = [said(A, EVERY) for A in MADE.values()]
    assert any("power-law exponent" in {r.quantity for r in readings} for readings, _ in seen)
    assert any("stick out of the noise" in s.why for _, skips in seen for s in skips)


def test_no_signs_are_drawn_for_a_tail_that_is_refused(monkeypatch):
    A = MADE["normal"]
    assert "stick out" not in said(A, EVERY)[1][0].why
    monkeypatch.setattr(RandomSigns, "_draw", None)
    said(A, frozenset(TAIL))


def test_a_narrow_matrix_has_no_noise_and_says_so():
    A = torch.randn(7, 40, generator=fresh())
    (skip,) = [s for s in measure(task(A), A)[0].skipped if "noise" in s.what]
    assert skip.what == ", ".join((*NOISE, *TAIL))
