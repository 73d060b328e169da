import threading

import pytest
import torch
from zoo import MATRICES, fresh

from sigmascope.linalg.spectra import _solve, _tasks, spectra, spectrum


@pytest.mark.parametrize("route", ["auto", "exact", "gram"])
def test_many_say_what_each_says_in_the_order_given(route):
    together = spectra(list(MATRICES.values()), route=route)
    assert len(together) == len(MATRICES)
    for s, A in zip(together, MATRICES.values(), strict=True):
        alone = spectrum(A, route=route)
        assert (s.shape, s.how) == (alone.shape, alone.how)
        atol = (1e-7 if route == "gram" else 1e-9) * alone.sigma[0].item()
        torch.testing.assert_close(s.sigma, alone.sigma, rtol=0, atol=atol)
        assert (s.low <= alone.high).all()
        assert (alone.low <= s.high).all()


def test_a_stack_is_as_good_as_a_list():
    stack = torch.randn(7, 4, 6, generator=fresh())
    for s, A in zip(spectra(stack), stack, strict=True):
        torch.testing.assert_close(s.sigma, spectrum(A).sigma, rtol=1e-12, atol=0)


def test_only_the_matrices_that_need_it_are_factorised_again():
    stack = torch.stack([torch.eye(3), torch.ones(3, 3), 2 * torch.eye(3)])
    redone = "exact, the Gram matrix being too coarse"
    assert [s.how for s in spectra(stack)] == ["gram", redone, "gram"]


def test_groups_are_bounded_and_the_dearest_comes_first(monkeypatch):
    monkeypatch.setattr("sigmascope.linalg.spectra.TASK", 100)
    matrices = [torch.ones(5, 5)] * 9 + [torch.ones(50, 50)]
    tasks = _tasks(matrices, "auto")
    assert [task.places for task in tasks] == [(9,), (0, 1, 2, 3), (4, 5, 6, 7), (8,)]


def test_no_matrices_have_no_spectra():
    assert spectra([]) == ()
    assert spectra(torch.zeros(0, 3, 3)) == ()


def test_leaves_the_thread_count_as_found():
    def seen_by_a_new_thread() -> int:
        seen = []
        thread = threading.Thread(target=lambda: seen.append(torch.get_num_threads()))
        thread.start()
        thread.join()
        return seen[0]

    found = torch.get_num_threads()
    try:
        for threads in (2, 1, 3):
            torch.set_num_threads(threads)
            matrices = [torch.randn(20 + i, 20) for i in range(6)]
            spectra(matrices)
            assert torch.get_num_threads() == threads
            assert seen_by_a_new_thread() == threads
    finally:
        torch.set_num_threads(found)


def test_leaves_the_thread_count_as_found_when_a_task_fails(monkeypatch):
    monkeypatch.setattr("sigmascope.linalg.spectra.dense_spectra", lambda *_: 1 / 0)
    found = torch.get_num_threads()
    with pytest.raises(ZeroDivisionError):
        _solve(_tasks([torch.eye(n) for n in (2, 2, 3)], "auto"))
    assert torch.get_num_threads() == found


def test_the_free_route_is_spectrum_with_its_defaults():
    (s,) = spectra([MATRICES["tall"]], route="free")
    torch.testing.assert_close(s.sigma, spectrum(MATRICES["tall"]).sigma, rtol=1e-12, atol=0)
