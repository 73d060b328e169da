import json

import pytest
import torch
from safetensors.torch import save_file

from sigmascope.gate import Refusal
from sigmascope.sources.stored import open_checkpoint
from sigmascope.sources.stored.folders import files_of, inside
from tests.sources.stored.checks import numbers, opens


@pytest.mark.parametrize(
    "name", ["../x", "/x", "a/../../x", "s3://x", "a\\b", "c:x", "", "a\0b", "memory::x"]
)
def test_names_that_lead_out_of_a_folder_are_refused(name):
    with pytest.raises(Refusal, match="leads out of it"):
        inside(name, "folder")


def test_names_within_a_folder_are_taken():
    assert inside("a-00001.safetensors", "folder") == "a-00001.safetensors"
    assert inside("sub/a.bin", "folder") == "sub/a.bin"


def kinds(*names):
    files = files_of("f", sorted(names))
    return files.kind, [p.removeprefix("f/") for p in files.places]


def test_which_files_are_the_checkpoint():
    assert kinds("model.safetensors", "pytorch_model.bin") == ("safetensors", ["model.safetensors"])
    assert kinds("model.safetensors", "model.fp16.safetensors")[1] == ["model.safetensors"]
    assert kinds("a.safetensors", "b.safetensors")[1] == ["a.safetensors", "b.safetensors"]
    assert kinds("pytorch_model.bin", "training_args.bin", "config.json")[0] == "torch.save"
    assert kinds("x.gguf") == ("GGUF", ["x.gguf"])
    assert kinds("x.pth", "optimizer.pt") == ("torch.save", ["x.pth"])


@pytest.mark.parametrize(
    ("names", "says"),
    [
        ([], "it holds no files"),
        (["x.txt"], "it holds `x.txt`"),
        (["a.gguf", "b.gguf"], "several checkpoints, `a.gguf`, `b.gguf`"),
        (["a.pt", "b.pt"], "several checkpoints"),
        (["a.safetensors.index.json", "b.safetensors.index.json"], "several checkpoints"),
    ],
)
def test_folders_without_one_checkpoint_are_refused(names, says):
    with pytest.raises(Refusal, match=says):
        files_of("f", names)


def shards(folder, where, name="model.safetensors.index.json"):
    save_file({"a": numbers(3, 2)}, folder / "one.safetensors")
    save_file({"b": numbers(2, 2), "c": numbers(4)}, folder / "two.safetensors")
    (folder / name).write_text(json.dumps({"weight_map": where}))


WHERE = {"b": "two.safetensors", "a": "one.safetensors", "c": "two.safetensors"}
WANTED = {"a": numbers(3, 2), "b": numbers(2, 2), "c": numbers(4)}


def test_an_index_names_the_files_in_its_order(tmp_path):
    shards(tmp_path, WHERE)
    save_file({"a": numbers(9, 9)}, tmp_path / "consolidated.safetensors")
    for source in (tmp_path, tmp_path / "model.safetensors.index.json"):
        found = opens(source, WANTED, names="abc", format="safetensors, 2 shards")
        assert [t.name for t in found.tensors] == ["b", "c", "a"]


def test_a_name_of_the_index_that_is_in_no_file_is_left_out(tmp_path):
    shards(tmp_path, WHERE | {"lost": "one.safetensors"})
    found = opens(tmp_path, WANTED, names=["a", "b", "c", "lost"])
    assert found.left_out[0].why == "The index names it, and it is not in its file."


@pytest.mark.parametrize(
    ("where", "says"),
    [
        (WHERE | {"d": "three.safetensors"}, "names `three.safetensors`, and 2 of 3 are there"),
        (WHERE | {"d": "../../x"}, "leads out of it"),
        ({}, "names no files"),
        ([], "must have a `weight_map`"),
        ({"a": 3}, "must have a `weight_map`"),
        (None, "must have a `weight_map`"),
    ],
)
def test_an_index_that_lies_is_refused(tmp_path, where, says):
    shards(tmp_path, where)
    with pytest.raises(Refusal, match=says):
        open_checkpoint(tmp_path)


def test_shards_of_torch_are_read_by_their_index(tmp_path):
    torch.save({"a": numbers(3, 2)}, tmp_path / "pytorch_model-1.bin")
    torch.save({"b": numbers(2, 2)}, tmp_path / "pytorch_model-2.bin")
    where = {"a": "pytorch_model-1.bin", "b": "pytorch_model-2.bin"}
    (tmp_path / "pytorch_model.bin.index.json").write_text(json.dumps({"weight_map": where}))
    opens(tmp_path, {"a": numbers(3, 2), "b": numbers(2, 2)}, format="torch.save, 2 shards")
