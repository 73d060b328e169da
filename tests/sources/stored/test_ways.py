import pytest
import torch

from sigmascope.gate import Refusal
from sigmascope.sources.stored.raws import Held
from sigmascope.sources.stored.ways import (
    Plain,
    Scaled,
    Turned,
    block_of,
    floating,
    grid,
    require_fit,
)
from tests.sources.stored.checks import numbers


def test_plain_numbers_stay_of_their_kind():
    half = numbers(4, 3, dtype=torch.float16)
    assert torch.equal(Plain().rows([Held(half)], (4, 3), 1, 3), half[1:3])
    assert floating(half) is half
    assert floating(numbers(2).to(torch.float8_e5m2)).dtype == torch.float32


def test_a_turned_matrix_is_the_transpose():
    assert torch.equal(Turned().rows([Held(numbers(3, 5))], (5, 3), 1, 4), numbers(3, 5).T[1:4])


def test_scales_are_divided_and_cut_blocks_are_whole():
    codes, scales = torch.ones(5, 4, dtype=torch.int8), torch.tensor([[1.0, 2], [3, 4], [5, 6]])
    got = Scaled((2, 3), divisor=2).rows([Held(codes), Held(scales)], (5, 4), 1, 5)
    assert got.tolist() == [[0.5, 0.5, 0.5, 1], *[[1.5, 1.5, 1.5, 2]] * 2, [2.5, 2.5, 2.5, 3]]


@pytest.mark.parametrize(
    ("shape", "scales", "block"),
    [
        ((6, 8), (), (6, 8)),
        ((6, 8), (6,), (1, 8)),
        ((6, 8), (6, 1), (1, 8)),
        ((6, 8), (1, 8), (6, 1)),
        ((6, 8), (6, 4), (1, 2)),
        ((6, 8), (8,), None),
        ((6, 8), (5, 1), None),
        ((300, 200), (3, 2), (128, 128)),
        ((2, 300, 200), (2, 3, 2), (128, 128)),
        ((2, 6, 8), (2,), (6, 8)),
        ((6,), (6,), (1,)),
        ((0, 8), (3, 3), None),
    ],
)
def test_blocks_are_told_by_shapes(shape, scales, block):
    assert block_of(shape, scales) == block


def test_the_last_block_may_be_cut():
    assert grid((2, 300, 200), (128, 128)) == (2, 3, 2)


def test_what_does_not_fit_is_refused():
    require_fit(True, "x")
    with pytest.raises(Refusal, match="cannot be read: x"):
        require_fit(False, "x")
