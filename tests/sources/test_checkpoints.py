import pytest
import torch
from safetensors.torch import save_file, save_model
from torch import nn

from sigmascope.gate import Refusal
from sigmascope.sources import open_model


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
        ([1], "got list"),
        ({"weight": "words"}, "`weight` is something else"),
        (Evil(), "could run code"),
        (nn.Linear(64, 5), "could run code"),
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
