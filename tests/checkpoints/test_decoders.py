import pytest
import torch

from sigmascope.checkpoints import open_checkpoint
from sigmascope.checkpoints.arrays import InMemory
from sigmascope.checkpoints.decoders import (
    Plain,
    Scaled,
    Turned,
    floating,
    grid,
    require_fit,
    unpacked,
)
from sigmascope.core.guard import Refusal
from tests.checkpoints.checks import numbers
from tests.checkpoints.test_quantization import draw, gptq, words


def test_plain_numbers_stay_of_their_kind():
    half = numbers(4, 3, dtype=torch.float16)
    assert torch.equal(Plain().rows([InMemory(half)], (4, 3), 1, 3), half[1:3])
    assert floating(half) is half
    assert floating(numbers(2).to(torch.float8_e5m2)).dtype == torch.float32


def test_a_turned_matrix_is_the_transpose():
    assert torch.equal(Turned().rows([InMemory(numbers(3, 5))], (5, 3), 1, 4), numbers(3, 5).T[1:4])


def test_scales_are_divided_and_cut_blocks_are_whole():
    codes, scales = torch.ones(5, 4, dtype=torch.int8), torch.tensor([[1.0, 2], [3, 4], [5, 6]])
    got = Scaled((2, 3), divisor=2).rows([InMemory(codes), InMemory(scales)], (5, 4), 1, 5)
    assert got.tolist() == [[0.5, 0.5, 0.5, 1], *[[1.5, 1.5, 1.5, 2]] * 2, [2.5, 2.5, 2.5, 3]]


def test_the_last_block_may_be_cut():
    assert grid((2, 300, 200), (128, 128)) == (2, 3, 2)


def test_what_does_not_fit_is_refused():
    require_fit(True, "x")
    with pytest.raises(Refusal, match="cannot be read: x"):
        require_fit(False, "x")


@pytest.mark.parametrize("bits", [2, 3, 4, 8])
def test_codes_come_out_as_they_were_packed(bits):
    codes = draw(1 << bits, 96, 5)
    assert torch.equal(unpacked(words(codes, bits), bits).long(), codes)


def test_groups_that_are_not_there_are_refused():
    state, _ = gptq(8, 64)
    state["x.g_idx"][3] = 2
    with pytest.raises(Refusal, match="groups that have no scales"):
        open_checkpoint(state).tensors[0].read()
    state["x.g_idx"][3] = -1
    with pytest.raises(Refusal, match="groups that have no scales"):
        open_checkpoint(state).tensors[0].read()
