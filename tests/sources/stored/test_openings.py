import json
import os
import time
import tracemalloc

import pytest
import torch
from safetensors.torch import save_file

from sigmascope.gate import Refusal
from sigmascope.sources.stored import open_checkpoint
from tests.sources.stored.checks import by_name, numbers, opens
from tests.sources.stored.test_groups import gptq


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
