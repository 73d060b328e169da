"""A tensor is a plain array of numbers, or is refused by what it is instead."""

import sys
from types import SimpleNamespace

import pytest
import torch

from sigmascope.core import guard
from sigmascope.core.guard import size_of

ODD = {
    "nested": lambda: torch.nested.nested_tensor([torch.ones(2)], layout=torch.jagged),
    "layout torch.sparse_coo": lambda: torch.eye(3).to_sparse(),
    "layout torch.sparse_csr": lambda: torch.eye(3).to_sparse_csr(),
    "meta device": lambda: torch.ones(3, device="meta"),
}
if "float4_e2m1fn_x2" in dir(torch):  # since torch 2.8
    ODD["of which torch computes nothing"] = lambda: torch.zeros(4, dtype=torch.uint8).view(
        torch.float4_e2m1fn_x2
    )


@pytest.mark.filterwarnings("ignore:Sparse CSR")  # torch, of itself
@pytest.mark.parametrize("says", ODD)
def test_what_is_no_array_is_refused_by_its_kind(says):
    with pytest.raises(guard.Refusal, match=rf"^It must be a dense tensor, got .*{says}"):
        guard.require_dense(ODD[says](), "It")


def test_more_numbers_than_fit_are_refused():
    with guard.memory("1GB"), pytest.raises(guard.Refusal, match="more of memory"):
        guard.require_dense(torch.ones(1).expand(2**40), "It")


@pytest.mark.parametrize(
    "dtype", [torch.float64, torch.bfloat16, torch.float8_e4m3fn, torch.complex64, torch.bool]
)
def test_arrays_of_any_number_pass(dtype):
    guard.require_dense(torch.ones(2, 3).to(dtype).T, "It")
    guard.require_dense(torch.zeros(0, 3, dtype=dtype), "It")


@pytest.mark.parametrize(
    ("words", "size"),
    [
        ("8GB", 8 * 10**9),
        ("512MiB", 512 << 20),
        ("2e9", 2 * 10**9),
        (" 1.5 g ", 15 * 10**8),
        ("7", 7),
    ],
)
def test_sizes_in_words(words, size):
    assert size_of(words) == size


@pytest.mark.parametrize(
    "words", ["", "-1", "nan", "inf", "0", "1e99", "8XB", "1..2", "\x1b[31m", "8G G"]
)
def test_what_is_no_size_is_refused(words):
    with pytest.raises(guard.Refusal, match="must read like `8GB`"):
        size_of(words)


def test_the_user_may_allow_more_and_less(monkeypatch):
    with guard.memory("1MB"):
        with pytest.raises(guard.Refusal, match=r"it needs 9.54 MiB or more .* 1000000 bytes"):
            guard.require_room(10**7, "it")
        with guard.memory("1GB"):
            guard.require_room(10**7, "it")
        with guard.memory(None), pytest.raises(guard.Refusal):
            guard.require_room(10**7, "it")
    monkeypatch.setenv("SIGMASCOPE_MEMORY", "2MB")
    with pytest.raises(guard.Refusal, match="SIGMASCOPE_MEMORY=64GB"):
        guard.require_room(10**7, "it")
    monkeypatch.delenv("SIGMASCOPE_MEMORY")
    guard.require_room(10**7, "it")
    with pytest.raises(guard.Refusal):
        guard.require_room(10**5000, "it")


@pytest.mark.parametrize("platform", ["linux", "darwin"])
def test_giving_memory_back_changes_nothing_that_is_held(platform, monkeypatch):
    monkeypatch.setattr("sys.platform", platform)
    held = torch.arange(10_000)
    guard.trim()
    assert torch.equal(held, torch.arange(10_000))


@pytest.mark.parametrize(("held", "times"), [(100, 0), (101, 1)])
def test_memory_goes_back_where_more_than_half_of_what_is_allowed_is_held(held, times, monkeypatch):
    given = []
    library = SimpleNamespace(malloc_trim=given.append)
    monkeypatch.setattr("sys.platform", "linux")
    monkeypatch.setattr(guard.ctypes, "CDLL", lambda _: library)
    monkeypatch.setattr(guard, "resident", lambda: held)
    with guard.memory(200):
        guard.trim(short=True)
        assert given == [0] * times
        guard.trim()
    assert given == [0] * (times + 1)


@pytest.mark.skipif(sys.platform != "linux", reason="asks the kernel of Linux")
def test_what_this_process_holds():
    before = guard.resident()
    held = torch.ones(2**24)
    assert 0.9 * held.nbytes < guard.resident() - before < 1.5 * held.nbytes
