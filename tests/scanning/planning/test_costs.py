import pytest
import torch

from sigmascope.scanning import planning
from sigmascope.scanning.planning import effort_of, memory_of, rate, work_of


@pytest.mark.parametrize(
    ("shape", "asked", "effort"),
    [
        ((256, 9000), "leading", "full"),
        ((9000, 256), "auto", "full"),
        ((257, 9000), "leading", "leading"),
        ((4096, 9000), "auto", "full"),
        ((4097, 9000), "auto", "leading"),
        ((9000, 9000), "full", "full"),
        ((1, 1), "leading", "full"),
    ],
)
def test_small_sides_are_computed_whole_and_large_ones_as_asked(shape, asked, effort):
    assert effort_of(shape, asked) == effort
    assert effort_of(shape[::-1], asked) == effort


@pytest.mark.parametrize("effort", ["full", "leading"])
def test_work_and_memory_grow_with_every_side_and_not_with_the_order(effort):
    small, large, turned = (300, 400), (300, 800), (400, 300)
    assert work_of(small, effort) < work_of(large, effort)
    assert work_of(small, effort) == work_of(turned, effort)
    assert memory_of(small, 10**6, effort) <= memory_of(large, 10**6, effort)
    assert memory_of(small, 2 * 10**6, effort) == memory_of(small, 10**6, effort) + 10**6


def test_leading_values_are_the_cheaper_the_larger_the_matrix():
    shares = [work_of((s, s), "leading") / work_of((s, s), "full") for s in (300, 1000, 4097, 8192)]
    assert shares[0] > 0.5
    assert shares == sorted(shares, reverse=True)
    assert shares[-1] < 0.05


def test_memory_holds_the_matrix_twice_and_the_solver():
    side = 4096
    assert memory_of((side, side), 2 * side**2, "full") > 300 * 2**20 + 18 * side**2
    assert memory_of((side, side), 2 * side**2, "leading") > 300 * 2**20 + 6 * side**2


def test_the_rate_is_measured_on_one_thread_and_once(monkeypatch):
    seen = []
    monkeypatch.setattr(planning, "_seconds", lambda A: seen.append(torch.get_num_threads()) or 0.5)
    rate.cache_clear()
    threads = torch.get_num_threads()
    try:
        assert rate() == rate() == work_of((512, 512), "full") / 0.5
    finally:
        rate.cache_clear()
    assert seen == [1, 1, 1]
    assert torch.get_num_threads() == threads


def test_seconds_are_measured():
    assert 0 < planning._seconds(torch.eye(16, dtype=torch.float64)) < 60


def test_the_rate_is_that_of_the_best_of_three(monkeypatch):
    """The others waited for something else."""
    times = iter([4.0, 1.0, 2.0])
    monkeypatch.setattr(planning, "_seconds", lambda A: next(times))
    assert planning.rate.__wrapped__() == work_of((512, 512), "full")


def test_leading_values_hold_blocks_as_long_as_both_sides_of_a_matrix():
    """Of 192 columns in single precision, before and behind the matrix."""
    held = [memory_of((side, 8), 0, "leading") for side in (10**5, 2 * 10**5)]
    assert held[1] - held[0] == pytest.approx(8 * 10**5 * 192 * 2)
