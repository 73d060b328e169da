import pytest
import torch

from sigmascope.gate import Refusal
from sigmascope.sources.stored import open_checkpoint
from sigmascope.sources.stored.packings import bits_of, unpacked
from tests.sources.stored.test_groups import draw, gptq, words


@pytest.mark.parametrize("bits", [2, 3, 4, 8])
def test_codes_come_out_as_they_were_packed(bits):
    codes = draw(1 << bits, 96, 5)
    assert torch.equal(unpacked(words(codes, bits), bits).long(), codes)


def test_bits_are_told_by_shapes():
    for bits in (2, 3, 4, 8):
        assert bits_of((2 * bits, 32), (3, bits), (3, 32), 64) == bits
    assert bits_of((8, 32), (3, 5), (3, 32), 64) is None
    assert bits_of((8, 32), (3, 4), (2, 32), 64) is None
    assert bits_of((8,), (3, 4), (3, 32), 64) is None
    assert bits_of((9, 32), (3, 4), (3, 32), 64) is None


def test_groups_that_are_not_there_are_refused():
    state, _ = gptq(8, 64)
    state["x.g_idx"][3] = 2
    with pytest.raises(Refusal, match="groups that have no scales"):
        open_checkpoint(state).tensors[0].read()
    state["x.g_idx"][3] = -1
    with pytest.raises(Refusal, match="groups that have no scales"):
        open_checkpoint(state).tensors[0].read()
