import pickle

import pytest
import torch
import torch.distributed.checkpoint as dcp
from safetensors.torch import save_file

from sigmascope.checkpoints import open_checkpoint
from sigmascope.core.guard import Refusal, memory
from tests.checkpoints.checks import numbers
from tests.checkpoints.test_quantization import awq, four_bits, gptq


def _rows(stored):
    return stored.read(1, 3).double().tolist()


@pytest.mark.filterwarnings("ignore:torch.distributed")
def test_tensors_of_every_format_can_be_sent_and_read(tmp_path):
    w = numbers(4, 32)
    save_file({"w": w, "small": w.to(torch.float8_e4m3fn)}, tmp_path / "a.safetensors")
    save_file(
        {**gptq(8, 64)[0], **awq(16, 8)[0], **four_bits(4, 32)[0]}, tmp_path / "b.safetensors"
    )
    torch.save({"w": w.t()}, tmp_path / "a.pt")
    torch.save({"w": w}, tmp_path / "b.pt", _use_new_zipfile_serialization=False)
    dcp.save({"w": w}, checkpoint_id=tmp_path / "d")
    files = ("a.safetensors", "b.safetensors", "a.pt", "b.pt", "d")
    stored = [t for name in files for t in open_checkpoint(tmp_path / name).tensors]
    stored += open_checkpoint({"w": w}).tensors
    assert len(stored) == 9
    sent = [pickle.loads(pickle.dumps(t)) for t in stored]  # as to another process
    assert [_rows(t) for t in sent] == [_rows(t) for t in stored]


@pytest.fixture
def one(tmp_path):
    save_file({"w": numbers(6, 4)}, tmp_path / "a.safetensors")
    return open_checkpoint(tmp_path / "a.safetensors").tensors[0]


def test_a_tensor_is_small(one):
    assert len(pickle.dumps(one)) < 700


@pytest.mark.parametrize("rows", [(-1, 2), (3, 2), (0, -1)])
def test_rows_out_of_order_are_refused(one, rows):
    with pytest.raises(Refusal, match="from 0 on and in order"):
        one.read(*rows)


def test_rows_beyond_the_end_end_there(one):
    assert one.read(4, 99).shape == (2, 4)
    assert one.read(99).shape == (0, 4)


def test_rows_are_weighed(one):
    with memory(64):
        assert one.read(0, 2).shape == (2, 4)
        with pytest.raises(Refusal, match="`w` needs 96 bytes"):
            one.read()


def test_a_file_that_is_gone_is_refused(one, tmp_path):
    (tmp_path / "a.safetensors").unlink()
    with pytest.raises(Refusal, match="No such file"):
        one.read()


def test_a_file_that_shrank_is_refused(one, tmp_path):
    path = tmp_path / "a.safetensors"
    path.write_bytes(path.read_bytes()[:-9])
    with pytest.raises(Refusal, match="it changed since it was opened"):
        one.read()


def test_a_name_with_half_a_character_is_written_out(tmp_path):
    torch.save({"a\ud800b": torch.ones(3, 2)}, tmp_path / "x.pt")
    (odd,) = open_checkpoint(tmp_path / "x.pt").tensors
    assert odd.name == "a\\ud800b"
    assert odd.read().tolist() == [[1, 1]] * 3
