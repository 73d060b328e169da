import numpy as np
import pytest
import torch

from sigmascope.sources.stored.blocks import KINDS, WITHIN, Blocks
from sigmascope.sources.stored.raws import Held

gguf = pytest.importorskip("gguf")


def random_blocks(kind, count=40):
    """Bytes of blocks whose scales are finite: halves of every size, no infinity and no NaN."""
    rng = np.random.default_rng(kind.bytes)
    blocks = rng.integers(0, 256, (count, kind.bytes), dtype=np.uint8)
    wanted = np.nan_to_num(dequantized(blocks, kind), nan=np.inf)
    return blocks[np.isfinite(wanted).all(axis=1)]


def dequantized(blocks, kind):
    with np.errstate(all="ignore"):
        return gguf.quants.dequantize(blocks, gguf.GGMLQuantizationType[kind.name])


@pytest.mark.parametrize("number", sorted(set(KINDS) - {15}), ids=lambda n: KINDS[n].name)
def test_blocks_of_any_bytes_turn_as_the_library_turns_them(number):
    kind = KINDS[number]
    assert gguf.GGML_QUANT_SIZES[gguf.GGMLQuantizationType(number)] == (kind.numbers, kind.bytes)
    assert gguf.GGMLQuantizationType(number).name == kind.name
    blocks = random_blocks(kind)
    assert len(blocks) > 20
    raw = Held(torch.from_numpy(blocks))
    got = Blocks(number).rows([raw], (len(blocks), kind.numbers), 0, len(blocks))
    assert np.array_equal(got.numpy(), dequantized(blocks, kind))


def test_q8_k_is_a_scale_and_codes():
    assert gguf.GGML_QUANT_SIZES[gguf.GGMLQuantizationType.Q8_K] == (256, 292)
    codes = np.arange(-128, 128, dtype=np.int8)
    block = np.concatenate((np.float32([0.5]).view(np.uint8), codes.view(np.uint8), np.full(32, 9)))
    got = KINDS[15].turn(block.astype(np.uint8)[None])
    assert np.array_equal(got[0], 0.5 * codes.astype(np.float32))


def test_many_blocks_are_turned_in_parts(monkeypatch):
    assert WITHIN >= 256
    monkeypatch.setattr("sigmascope.sources.stored.blocks.WITHIN", 64)
    blocks = random_blocks(KINDS[8])[:20]
    raw = Held(torch.from_numpy(blocks.reshape(10, -1)))
    got = Blocks(8).rows([raw], (10, 64), 3, 7)
    assert np.array_equal(got.numpy(), dequantized(blocks, KINDS[8]).reshape(10, 64)[3:7])


def test_scales_that_are_not_finite_come_as_they_are():
    block = np.zeros((1, 34), np.uint8)
    block[0, :2] = np.float16([np.inf]).view(np.uint8)
    got = Blocks(8).rows([Held(torch.from_numpy(block))], (1, 32), 0, 1)
    assert got.isnan().all()
