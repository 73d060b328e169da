import json
import os
import time
import tracemalloc
import zipfile

import numpy as np
import pytest
import torch
from safetensors.torch import save_file
from torch import nn

from sigmascope.checkpoints import formats, open_checkpoint
from sigmascope.checkpoints.arrays import InMemory
from sigmascope.checkpoints.formats import files_of
from sigmascope.checkpoints.tensors import FileFormat
from sigmascope.core.guard import Refusal
from tests.checkpoints.checks import by_name, numbers, opens, raw_names
from tests.checkpoints.test_quantization import gptq


def test_files_are_told_by_how_they_begin(tmp_path):
    save_file({"w": numbers(2, 2)}, tmp_path / "weights")
    opens(tmp_path / "weights", {"w": numbers(2, 2)}, format="safetensors")
    torch.save({"w": numbers(2, 2)}, tmp_path / "state")
    opens(str(tmp_path / "state"), {"w": numbers(2, 2)}, format="torch.save")


def test_a_folder_has_its_configuration_and_quantised_weights_ask_it(tmp_path):
    state, want = gptq(8, 64, added=0, low=0)
    save_file(state, tmp_path / "model.safetensors")
    settings = {"quant_method": "gptq", "checkpoint_format": "gptq_v2"}
    config = {"model_type": "llama", "quantization_config": settings}
    (tmp_path / "config.json").write_text(json.dumps(config))
    assert opens(tmp_path, {"x.weight": want}, names=state).config == config
    assert open_checkpoint(tmp_path / "model.safetensors").config == config


def test_a_weight_may_have_its_scales_in_another_file(tmp_path):
    codes = numbers(6, 4).to(torch.float8_e4m3fn)
    save_file({"a.weight": codes}, tmp_path / "1.safetensors")
    save_file({"a.weight_scale": numbers(6, 1)}, tmp_path / "2.safetensors")
    opens(tmp_path, {"a.weight": codes.float() * numbers(6, 1)})


def test_a_damaged_configuration_is_refused_with_its_folder_only(tmp_path):
    save_file({"w": numbers(2, 2)}, tmp_path / "a.safetensors")
    (tmp_path / "config.json").write_text("[")
    opens(tmp_path / "a.safetensors", {"w": numbers(2, 2)})
    with pytest.raises(Refusal, match="not valid JSON"):
        open_checkpoint(tmp_path)


def test_relative_names_are_read_from_anywhere(tmp_path, monkeypatch):
    save_file({"w": numbers(2, 2)}, tmp_path / "a.safetensors")
    monkeypatch.chdir(tmp_path)
    found = open_checkpoint("a.safetensors")
    monkeypatch.chdir("/")
    assert found.name == "a.safetensors"
    assert torch.equal(found.tensors[0].read(), numbers(2, 2))


def test_files_of_other_checkpoints_beside_are_refused(tmp_path):
    for name in ("a.safetensors", "b.safetensors"):
        save_file({"w": numbers(2, 2)}, tmp_path / name)
    with pytest.raises(Refusal, match=r"`b.safetensors` holds `w` once more"):
        open_checkpoint(tmp_path)


def test_the_fingerprint_changes_with_the_files(tmp_path):
    path = tmp_path / "a.safetensors"
    save_file({"w": numbers(2, 2)}, path)
    first = open_checkpoint(path).fingerprint
    assert open_checkpoint(path).fingerprint == first
    assert open_checkpoint(tmp_path).fingerprint == first
    os.utime(path, ns=(1, 1))
    second = open_checkpoint(path).fingerprint
    save_file({"v": numbers(2, 2)}, path)
    os.utime(path, ns=(1, 1))
    assert len({first, second, open_checkpoint(path).fingerprint}) == 3


@pytest.mark.parametrize(
    ("name", "says"),
    [
        ("gone.safetensors", "There is no checkpoint .* Did you mean `one.safetensors`"),
        ("no/such", "There is no checkpoint"),
        ("empty", "it has no bytes"),
        ("text.txt", "damaged or not"),
        ("\x1b[31m", r"\\x1b\[31m"),
        ("a\0b", "There is no checkpoint"),
    ],
)
def test_what_is_no_checkpoint_is_refused(tmp_path, name, says):
    save_file({"w": numbers(2, 2)}, tmp_path / "one.safetensors")
    (tmp_path / "empty").write_bytes(b"")
    (tmp_path / "text.txt").write_text("some words about weights")
    with pytest.raises(Refusal, match=says):
        open_checkpoint(tmp_path / name)


def test_a_link_that_leads_nowhere_is_told_from_a_name_that_is_not_there(tmp_path):
    """A folder of a cache of Hugging Face holds links to files of another folder."""
    snapshot = tmp_path / "snapshot"
    snapshot.mkdir()
    (snapshot / "model.safetensors").symlink_to("../blobs/gone")
    with pytest.raises(Refusal, match=r"is a link to `\.\./blobs/gone`, which is not there: fetch"):
        open_checkpoint(snapshot / "model.safetensors")
    says = r"holds no files but links to what is not there \(`model\.safetensors`\)"
    with pytest.raises(Refusal, match=says):
        open_checkpoint(snapshot)
    (tmp_path / "round").symlink_to("round")
    with pytest.raises(Refusal, match="is a link to `round`, which is not there"):
        open_checkpoint(tmp_path / "round")
    (tmp_path / "round").unlink()
    with pytest.raises(Refusal, match=r"no files but folders \(`snapshot`\): name one of them"):
        open_checkpoint(tmp_path)


def test_an_empty_name_is_not_this_folder(tmp_path, monkeypatch):
    save_file({"w": numbers(2, 2)}, tmp_path / "one.safetensors")
    monkeypatch.chdir(tmp_path)
    with pytest.raises(Refusal, match="must have a name, got an empty one"):
        open_checkpoint("")


def test_other_archives_are_told_by_what_is_in_them(tmp_path):
    np.savez(tmp_path / "w.npz", w=np.ones((2, 2)))
    with pytest.raises(Refusal, match=r"is an archive of NumPy.* `safetensors\.numpy\.save_file"):
        open_checkpoint(tmp_path / "w.npz")
    with zipfile.ZipFile(tmp_path / "m.pt2", "w") as archive:
        archive.writestr("m/archive_format", "pt2")
    with pytest.raises(Refusal, match=r"is a program of `torch\.export`.*: save its `state_dict`"):
        open_checkpoint(tmp_path / "m.pt2")
    with zipfile.ZipFile(tmp_path / "other.pt", "w") as archive:
        archive.writestr("read.me", "words")
    with pytest.raises(Refusal, match=r"a zip, but not of `torch\.save`.*: save weights with"):
        open_checkpoint(tmp_path / "other.pt")


def test_pipes_are_refused(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(Refusal, match="a device, pipe or socket"):
        open_checkpoint(tmp_path / "pipe")


def sparse(path, count, side):
    """A file that declares matrices and takes no room."""
    size = 2 * side * side
    entries = {
        f"model.layers.{n}.mlp.experts.proj.weight": {
            "dtype": "BF16",
            "shape": [side, side],
            "data_offsets": [n * size, (n + 1) * size],
        }
        for n in range(count)
    }
    header = json.dumps(entries).encode()
    with path.open("wb") as file:
        file.write(len(header).to_bytes(8, "little") + header)
        file.truncate(8 + len(header) + count * size)


def test_a_terabyte_opens_at_once_and_reads_a_tensor_at_a_time(tmp_path):
    sparse(tmp_path / "a.safetensors", 2000, 16_384)
    tracemalloc.start()
    begun = time.perf_counter()
    found = open_checkpoint(tmp_path / "a.safetensors")
    took = time.perf_counter() - begun
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert sum(t.bytes for t in found.tensors) > 10**12
    assert took < 5
    assert peak < 16 << 20
    assert by_name(found)["model.layers.1999.mlp.experts.proj.weight"].read(7, 9).sum() == 0


def kinds(*names):
    files = files_of("f", sorted(names))
    return files.kind.name, [p.removeprefix("f/") for p in files.locations]


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


def test_a_module_is_a_checkpoint():
    model = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4))
    state = {n: t.detach().clone() for n, t in model.state_dict().items()}
    wanted = {n: t for n, t in state.items() if t.is_floating_point()}
    found = opens(model, wanted, names=state, format="module")
    assert found.name == "Sequential"
    assert [e.name for e in found.left_out] == ["1.num_batches_tracked"]
    assert not found.tensors[0].read().requires_grad


def test_tied_weights_have_one_key():
    model = nn.ModuleDict({"a": nn.Linear(3, 4), "b": nn.Linear(3, 4)})
    model["b"].weight = model["a"].weight
    found = by_name(open_checkpoint(model))
    assert found["a.weight"].key() == found["b.weight"].key()
    assert found["a.bias"].key() != found["b.bias"].key()


def test_what_is_no_array_is_left_out():
    state = {"w": numbers(2, 2), "lazy": nn.LazyLinear(3).weight, "n": 3}
    state |= {"meta": torch.empty(2, device="meta"), "sparse": torch.eye(2).to_sparse()}
    found = open_checkpoint(state)
    assert [t.name for t in found.tensors] == ["w"]
    assert raw_names(found) == sorted(state)


def test_what_wrappers_put_before_names_is_dropped():
    state = {"module._orig_mod.w": numbers(2, 2), "module._orig_mod.v": numbers(3)}
    opens(state, {"w": numbers(2, 2), "v": numbers(3)}, names=state)


def test_the_fingerprint_changes_with_the_numbers():
    state = {"w": numbers(2, 2)}
    first = open_checkpoint(state).fingerprint
    assert open_checkpoint(state).fingerprint == first
    state["w"].add_(1)
    assert open_checkpoint(state).fingerprint != first
    with torch.inference_mode():
        assert open_checkpoint({"w": torch.ones(2)}).tensors


def test_weights_within_what_a_loop_saved_are_found_in_memory_as_in_a_file(tmp_path):
    saved = {"epoch": 3, "model": {"a.weight": torch.ones(3, 2)}, "optimizer": {"lr": 0.1}}
    torch.save(saved, tmp_path / "a.pt")
    loaded, read = open_checkpoint(saved), open_checkpoint(tmp_path / "a.pt")
    assert [t.name for t in loaded.tensors] == [t.name for t in read.tensors] == ["a.weight"]
    assert set(loaded.left_out) == set(read.left_out)


def test_a_mapping_in_memory_is_walked_as_a_file_of_it_is(tmp_path):
    encoder, decoder = nn.Sequential(nn.Linear(4, 3)), nn.LSTM(3, 2)
    optimizer = torch.optim.Adam(encoder.parameters())
    encoder(torch.ones(2, 4)).sum().backward()
    optimizer.step()
    one, two = encoder.state_dict(), decoder.state_dict()
    holding_itself = {"a": one}
    holding_itself["self"] = holding_itself
    for content in (
        {"encoder": one, "decoder": two},
        {"models": [one, (two,)], "step": 3},
        {0: {"deep": [{"er": one}]}, "empty": {}},
        {"generator": one, "opt_g": optimizer.state_dict(), "optimizer": optimizer.state_dict()},
        {"model": one, "ema": two, "optimizer": optimizer.state_dict()},
        {"a": one, "b": one},
        holding_itself,
    ):
        torch.save(content, tmp_path / "loop.pt")
        file, memory = open_checkpoint(tmp_path / "loop.pt"), open_checkpoint(content)
        assert [t.name for t in memory.tensors] == [t.name for t in file.tensors]
        assert memory.left_out == file.left_out
        for ours, theirs in zip(memory.tensors, file.tensors, strict=True):
            assert torch.equal(ours.read(), theirs.read())
    saved = open_checkpoint({"encoder": one, "models": [two], "o": optimizer.state_dict()})
    whole = open_checkpoint({"encoder": encoder, "models": [decoder], "o": optimizer})
    assert [(t.name, t.shape) for t in whole.tensors] == [(t.name, t.shape) for t in saved.tensors]
    assert whole.left_out == saved.left_out
    assert [t.name for t in open_checkpoint({"model": encoder, "epoch": 3}).tensors] == list(one)
    assert len(open_checkpoint({"a": encoder, "b": encoder}).tensors) == 2
    with pytest.raises(Refusal, match="must hold weights, got the state of an optimizer: name `mo"):
        open_checkpoint(optimizer.state_dict())


def test_an_empty_mapping_is_an_empty_checkpoint():
    assert open_checkpoint({}).tensors == ()


def test_a_prefix_that_not_all_names_have_stays():
    state = {"module.w": numbers(2, 2), "head": numbers(3)}
    opens(state, state, names=state)


def test_a_model_of_transformers_tells_its_configuration_and_others_tell_none():
    class Told(nn.Linear):
        config = type("Config", (), {"to_dict": lambda self: {"model_type": "gpt2"}})()

    assert open_checkpoint(Told(3, 4)).config == {"model_type": "gpt2"}
    assert open_checkpoint(nn.Linear(3, 4)).config == {}
    Told.config = {"model_type": "gpt2"}
    assert open_checkpoint(Told(3, 4)).config == {}


def test_a_format_that_is_listed_is_read_alone_and_from_a_folder(tmp_path, monkeypatch):
    """It is one declaration: nothing else knows the formats by name."""
    told = lambda location: ({"w": InMemory(torch.ones(2, 3))}, [], "a hash")
    own = FileFormat("plain", (".plain",), lambda begins, _: begins[:5] == b"PLAIN", arrays=told)
    monkeypatch.setattr(formats, "FORMATS", (own, *formats.FORMATS))
    (tmp_path / "a.plain").write_bytes(b"PLAIN numbers")
    for source in (tmp_path / "a.plain", tmp_path):
        found = open_checkpoint(source)
        assert (found.format, [t.name for t in found.tensors]) == ("plain", ["w"])


def test_every_format_reads_arrays_or_tensors_and_the_last_takes_what_no_other_does():
    assert all((f.arrays is None) != (f.tensors is None) for f in formats.FORMATS)
    assert len({f.name for f in formats.FORMATS}) == len(formats.FORMATS)
    assert formats.FORMATS[-1].is_one(b"", "")
