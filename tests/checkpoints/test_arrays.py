import pickle

import pytest
import torch

from sigmascope.checkpoints.arrays import (
    InFile,
    InMemory,
    contiguous,
    extent,
    require_shape,
    word,
)
from sigmascope.core.guard import Refusal
from tests.checkpoints.checks import numbers, same


def test_rows_of_a_range_are_read_by_range(tmp_path):
    (tmp_path / "a").write_bytes(b"x" * 7 + numbers(5, 3).numpy().tobytes())
    raw = InFile(str(tmp_path / "a"), 7, torch.float32, (5, 3))
    same(raw.rows(1, 4), numbers(5, 3)[1:4])
    turned = InFile(str(tmp_path / "a"), 7, torch.float32, (3, 5), (1, 3))
    same(turned.rows(1, 3), numbers(5, 3).T[1:3].contiguous())
    assert raw.key() != turned.key()
    assert (raw.bytes, word(raw.dtype)) == (60, "float32")


@pytest.mark.parametrize(
    "tensor",
    [numbers(4, 3), numbers(4, 3).T, numbers(3).to(torch.float8_e4m3fn), torch.tensor(2.0)],
)
def test_a_tensor_in_memory_takes_its_numbers_along(tensor):
    same(pickle.loads(pickle.dumps(InMemory(tensor))).all().float(), tensor.contiguous().float())


def test_a_view_in_memory_is_sent_without_what_it_views():
    assert len(pickle.dumps(InMemory(torch.zeros(100_000)[:10]))) < 1000


def test_reading_what_is_in_memory_copies_it():
    tensor = numbers(3, 2)
    InMemory(tensor).rows(0, 3).zero_()
    assert torch.equal(tensor, numbers(3, 2))


def test_the_reach_of_strides():
    assert extent((3, 4), (4, 1)) == 12
    assert extent((3, 4), (1, 0)) == 3
    assert extent((3, 0), (4, 1)) == 0
    assert extent((), ()) == 1
    assert contiguous((2, 3, 4)) == (12, 4, 1)
    assert contiguous((2, 0)) == (1, 1)


def test_shapes_are_checked():
    assert require_shape([2, 3], "x") == (2, 3)
    assert require_shape((), "x") == ()
    for shape in (
        [-1],
        [1.0],
        [True],
        [1 << 62],
        [1 << 30, 1 << 30],
        [1] * 65,
        None,
        "ab",
        [0, 1 << 61],
    ):
        with pytest.raises(Refusal, match="`x` must have a shape"):
            require_shape(shape, "`x`")
