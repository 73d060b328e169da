import json

import pytest
import torch

from sigmascope.gate import Refusal
from sigmascope.sources.stored import open_checkpoint
from tests.sources.stored.checks import raw_names, reads
from tests.sources.stored.test_groups import four_bits

STATE = "z.weight.quant_state.bitsandbytes__nf4"


def stated(text):
    return torch.tensor(list(text if isinstance(text, bytes) else json.dumps(text).encode())).byte()


@pytest.mark.parametrize(
    ("state", "says"),
    [
        (b"{", "no JSON object"),
        (b"[]", "no JSON object"),
        ({}, "must have a shape"),
        ({"shape": [-1], "blocksize": 16}, "must have a shape"),
        ({"shape": [], "blocksize": 16}, "no shape"),
        ({"shape": [6, 16], "blocksize": 0}, "no size of blocks"),
        ({"shape": [6, 16], "blocksize": 16, "nested_blocksize": 0}, "no size of blocks"),
        ({"shape": [6, 16], "blocksize": 16, "nested_offset": "x"}, "an offset that is no number"),
        ({"shape": [600, 16], "blocksize": 16}, "fewer than its shape needs"),
        ({"shape": [6, 16], "blocksize": 2}, "fewer than its shape needs"),
        (b" " * 70_000, "too large"),
    ],
)
def test_states_that_lie_leave_the_weight_out(state, says):
    tensors, _ = four_bits(6, 16)
    found = open_checkpoint(tensors | {STATE: stated(state)})
    assert raw_names(found) == sorted(tensors)
    assert says in found.left_out[0].why


def test_a_part_that_is_not_there_leaves_the_weight_out():
    tensors, _ = four_bits(6, 16)
    del tensors["z.weight.quant_map"]
    found = open_checkpoint(tensors)
    assert raw_names(found) == sorted(tensors)
    assert "a part of it is not in the file" in found.left_out[0].why


def test_nested_scales_that_do_not_fit_are_refused():
    tensors, _ = four_bits(6, 16)
    tensors["z.weight.nested_quant_map"] = torch.zeros(3)
    with pytest.raises(Refusal, match="nested scales do not fit"):
        open_checkpoint(tensors).tensors[0].read()


def test_codes_in_wider_numbers_are_the_same_codes():
    tensors, want = four_bits(6, 16)
    wide = tensors | {"z.weight": tensors["z.weight"].view(-1).view(torch.bfloat16)[:, None]}
    (narrow,), (stored,) = open_checkpoint(tensors).tensors, open_checkpoint(wide).tensors
    reads(stored, narrow.read())
    assert torch.allclose(stored.read(), want, atol=1e-6)


def test_codes_are_turned_in_parts(monkeypatch):
    (stored,) = open_checkpoint(four_bits(6, 16)[0]).tensors
    whole = stored.read()
    monkeypatch.setattr("sigmascope.sources.stored.four_bits.WITHIN", 7)
    reads(stored, whole)


def test_nested_blocks_are_of_256_where_the_state_is_silent():
    tensors, _ = four_bits(300, 16)
    fields = {"shape": [300, 16], "blocksize": 16, "nested_offset": 0.0}
    sizes = {"z.weight.nested_absmax": torch.tensor([1.0, 3.0]), STATE: stated(fields)}
    found = open_checkpoint(tensors | sizes).tensors[0].read()
    codes = tensors["z.weight"].flatten().long()
    codes = torch.stack((codes // 16, codes % 16), 1).reshape(300, 16)
    scales = tensors["z.weight.nested_quant_map"][tensors["z.weight.absmax"].long()]
    scales = scales * torch.tensor([1.0] * 256 + [3.0] * 44)
    want = tensors["z.weight.quant_map"][codes] * scales[:, None]
    assert torch.allclose(found, want, atol=1e-6)
