import argparse
import os
import zipfile
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import save_file, save_model
from torch import nn

from sigmascope.core import guard
from sigmascope.core.guard import Refusal
from sigmascope.sources import load_checkpoint, open_model, read_checkpoint
from tests.fuzz import world


def test_a_checkpoint_is_loaded_from_every_kind_of_file(mine, tmp_path):
    state = nn.Linear(64, 5).state_dict()
    torch.save(state, tmp_path / "a.pt")
    save_file(state, tmp_path / "a.safetensors")
    torch.save({"state_dict": state, "epoch": 3}, tmp_path / "wrapped.pt")
    torch.save({f"module.{k}": v for k, v in state.items()}, tmp_path / "parallel.pt")
    torch.save({"model": {f"_orig_mod.{k}": v for k, v in state.items()}}, tmp_path / "both.ckpt")
    for name in ("a.pt", "a.safetensors", "wrapped.pt", "parallel.pt", "both.ckpt"):
        model = open_model(mine("linear"), checkpoint=tmp_path / name)
        assert torch.equal(model.module.weight, state["weight"])
        assert model.weights.startswith(f"from {name}")


def test_tied_weights_may_be_there_once(mine, tmp_path):
    tied = open_model(mine("Tied")).module
    save_model(tied, str(tmp_path / "tied.safetensors"))
    loaded = open_model(mine("Tied"), checkpoint=tmp_path / "tied.safetensors").module
    assert torch.equal(loaded.head.weight, tied.words.weight)


class Evil:
    def __reduce__(self):
        return (exec, ("raise SystemExit('code was run')",))


@pytest.mark.parametrize(
    ("content", "says"),
    [
        ({"weight": torch.ones(5, 64)}, "lacks `bias`"),
        ({"weight": torch.ones(5, 64), "bais": torch.ones(5)}, "has no `bais`"),
        ({"weight": torch.ones(5, 63), "bias": torch.ones(5)}, r"shape \(5, 63\), the model's"),
        ({}, "an empty one"),
        ([1], "value of type list"),
        ({"weight": "words"}, "`weight` is something else"),
        (Evil(), "whose code is not run"),
        (nn.Linear(64, 5), "whose code is not run"),
    ],
)
def test_a_checkpoint_that_does_not_fit_is_refused(mine, tmp_path, content, says):
    torch.save(content, tmp_path / "a.pt")
    with pytest.raises(Refusal, match=says) as refusal:
        open_model(mine("linear"), checkpoint=tmp_path / "a.pt")
    assert "\n" not in str(refusal.value)


def test_a_checkpoint_that_is_not_there_is_refused(mine, tmp_path):
    torch.save({}, tmp_path / "a.pt")
    with pytest.raises(Refusal, match=r"Did you mean `a\.pt`"):
        open_model(mine("linear"), checkpoint=tmp_path / "b.pt")
    (tmp_path / "train.py").write_text("print(1)")
    with pytest.raises(Refusal, match=r"is a program, not a checkpoint.* train\.py:NAME"):
        open_model(mine("linear"), checkpoint=tmp_path / "train.py")
    with pytest.raises(Refusal, match=r"is a folder; name a file in it, one of `a\.pt`"):
        open_model(mine("linear"), checkpoint=tmp_path)


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    folder = tmp_path_factory.mktemp("weights")
    world.build(folder)
    return folder


WEIGHTS = {
    "sparse.pt": "to_dense",
    "expanded.pt": "GiB or more of memory",
    "meta.pt": "meta device",
    "q.pt": "quantised",
    "evil.pt": "not a file of `torch.save`",
    "cut.pt": "damaged",
    "inflated.pt": "is compressed",
    "long.safetensors": "declares a header",
    "claims.safetensors": "damaged",
    "list.pt": "must hold a state dict",
    "nested.pt": "something else",
}


@pytest.mark.parametrize("name", WEIGHTS)
def test_weights_that_mean_harm_are_refused(home, name):
    with guard.memory("1GB"), pytest.raises(guard.Refusal, match=WEIGHTS[name]):
        read_checkpoint(home / name)
    assert not (home / "it_ran").exists()


@pytest.mark.parametrize("name", ["good.pt", "good.safetensors", "old.pth"])
def test_weights_that_mean_well_are_read(home, name):
    assert len(read_checkpoint(home / name)) == 4


class Settings(dict):
    pass


def trained():
    """What loops save beside weights, of which torch's reader of weights alone takes none."""
    model = nn.Linear(64, 5)
    beside = {"hyper_parameters": Settings(lr=0.1), "args": argparse.Namespace(width=3)}
    beside |= {"best": np.float32(0.5), "where": Path("x")}
    return model.state_dict(), {"state_dict": model.state_dict(), "epoch": 3, **beside}


@pytest.mark.parametrize("options", [{}, {"_use_new_zipfile_serialization": False}])
@pytest.mark.parametrize("protocol", [2, 4, 5])
def test_weights_are_loaded_from_beside_what_a_loop_saves(mine, tmp_path, options, protocol):
    state, content = trained()
    torch.save(content, tmp_path / "a.ckpt", pickle_protocol=protocol, **options)
    model = open_model(mine("linear"), checkpoint=tmp_path / "a.ckpt")
    assert torch.equal(model.module.weight, state["weight"])
    assert "its `state_dict`" in model.weights


def test_a_file_of_nested_tuples_takes_no_time(tmp_path):
    levels = 60
    key = b"".join(b"h" + bytes([n]) + b"\x86q" + bytes([n + 1]) for n in range(levels))
    with zipfile.ZipFile(tmp_path / "a.pt", "w") as archive:
        archive.writestr("a/data.pkl", b"\x80\x02})q\x00" + key + b"K\x01s.")
    with pytest.raises(Refusal, match="keys that are no names"):
        load_checkpoint(nn.Linear(2, 2), tmp_path / "a.pt")


@pytest.mark.parametrize("name", ["a.pt", "a.safetensors"])
def test_weights_that_need_more_memory_than_is_allowed_are_refused(tmp_path, name):
    """By what they are in all, each entry of as many bytes as its kind has."""
    save = torch.save if name == "a.pt" else save_file
    save({"w": torch.ones(3000, 100), "n": torch.ones(100_000).half()}, tmp_path / name)
    with guard.memory("1.39MB"), pytest.raises(Refusal, match="allowed"):
        read_checkpoint(tmp_path / name)
    with guard.memory("1.41MB"):
        assert read_checkpoint(tmp_path / name)["w"].sum() == 300_000


def resident():
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


@pytest.mark.parametrize("name", ["a.pt", "a.safetensors"])
def test_weights_stay_in_the_pages_of_their_file_until_they_are_used(tmp_path, name):
    save = torch.save if name == "a.pt" else save_file
    save({"w": torch.ones(1 << 22), "n": torch.ones(3)}, tmp_path / name)
    before = resident()
    state = read_checkpoint(tmp_path / name)
    assert resident() < before + (1 << 22)
    assert state["w"].sum() == 1 << 22
    state["w"].zero_()
    assert read_checkpoint(tmp_path / name)["w"].sum() == 1 << 22


def test_of_many_weights_that_do_not_fit_the_first_few_are_named(tmp_path):
    model = nn.ParameterDict({f"part{i}": torch.ones(2) for i in range(5)})
    state = {name: torch.ones(2, dtype=torch.complex64) for name in model}
    torch.save(state, tmp_path / "a.pt")
    with pytest.raises(Refusal, match="does not fit the model") as refusal:
        load_checkpoint(model, tmp_path / "a.pt")
    assert str(refusal.value).count("`part") == 3
