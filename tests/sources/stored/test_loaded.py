import pytest
import torch

from sigmascope.gate import Refusal, memory
from sigmascope.sources.stored import open_checkpoint
from sigmascope.sources.stored.loaded import why_no_array
from tests.sources.stored.checks import by_name, numbers, opens


def old(folder, content):
    torch.save(content, folder / "a.pth", _use_new_zipfile_serialization=False)
    return folder / "a.pth"


def test_pickles_of_older_torch_are_read(tmp_path):
    w = numbers(5, 3)
    state = {"w": w, "t": w.t(), "scalar": torch.tensor(2.0), "half": numbers(2, 2).half()}
    path = old(tmp_path, {"model": state, "epoch": 3})
    found = opens(path, state, names=[*state, "epoch"], format="torch.save")
    assert by_name(found)["w"].key() != by_name(found)["t"].key()


def test_tied_weights_of_older_files_have_one_key(tmp_path):
    w = numbers(2, 2)
    a, b, c = open_checkpoint(old(tmp_path, {"a": w, "b": w, "c": w.clone()})).tensors
    assert a.key() == b.key() != c.key()


def test_what_would_run_code_is_refused(tmp_path):
    path = old(tmp_path, torch.nn.Linear(2, 2))
    with pytest.raises(Refusal, match="could run code"):
        open_checkpoint(path)


def test_a_file_is_weighed_before_it_is_read_whole(tmp_path):
    path = old(tmp_path, {"w": torch.zeros(1000)})
    with memory("1kB"), pytest.raises(Refusal, match="allow more"):
        open_checkpoint(path)


def test_a_file_that_changed_is_refused(tmp_path):
    (stored,) = open_checkpoint(old(tmp_path, {"w": torch.zeros(10)})).tensors
    old(tmp_path, {"v": torch.zeros(1000)})
    with pytest.raises(Refusal, match="changed since it was opened"):
        stored.read()


def test_why_a_tensor_is_no_array():
    assert why_no_array(torch.ones(2)) == ""
    assert why_no_array(torch.ones(2, device="meta")).startswith("Without numbers")
    assert why_no_array(torch.eye(2).to_sparse()).startswith("Sparse")


def test_sparse_tensors_of_older_files_are_left_out(tmp_path):
    state = {"s": torch.eye(3).to_sparse(), "w": numbers(2, 2)}
    found = opens(old(tmp_path, state), {"w": numbers(2, 2)}, names=state)
    assert found.left_out[0].why.startswith("Sparse")
