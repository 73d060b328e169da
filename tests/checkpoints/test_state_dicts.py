import pytest
import torch

from sigmascope.checkpoints import open_checkpoint
from sigmascope.checkpoints.arrays import InMemory
from sigmascope.checkpoints.pickles import Name, Note
from sigmascope.checkpoints.state_dicts import kind, state_dict
from sigmascope.core.guard import Refusal

DEEPEST = 32

T = InMemory(torch.ones(1))


def names(content):
    found = state_dict(content, "file")
    return sorted(found.arrays), sorted(entry.name for entry in found.left_out)


def test_names_have_dots_between_keys():
    assert names({"a": {"b": [T, T], 3: T}, "c": T}) == (["a.3", "a.b.0", "a.b.1", "c"], [])


def test_weights_are_found_where_loops_keep_them():
    assert names({"model": {"w": T}, "epoch": 3, "ema": {"w": T}}) == (["w"], ["ema", "epoch"])
    assert names({"module": {"w": T}, "lr": 1}) == (["w"], ["lr"])
    assert names({"model": T, "b": T}) == (["b", "model"], [])


def test_what_lies_beside_the_weights_is_told_from_what_is_among_them():
    found = state_dict({"model": {"w": T, "n": 3}, "epoch": 1}, "file")
    assert found.holder == "model"
    assert [entry.name for entry in found.odd] == ["n"]


def test_states_of_a_loop_are_left_out():
    assert names({"encoder": {"w": T}, "optimizer": {"m": T}}) == (["encoder.w"], ["optimizer"])
    assert names({"encoder": {"w": T}, "optimizer": T}) == (["encoder.w", "optimizer"], [])


def test_what_is_no_tensor_is_left_out_with_its_kind():
    found = state_dict({"w": T, "n": 3, "e": {}, "o": Note("a.B", ())}, "file")
    assert {e.name: e.why for e in found.left_out} == {
        "n": "Not a tensor but a value of type int.",
        "e": "Empty.",
        "o": "Not a tensor but an object of `a.B`, whose code is not run.",
    }


def test_one_tensor_is_a_checkpoint_of_one():
    assert names(T) == (["tensor"], [])


@pytest.mark.parametrize("content", [3, None, [T], Note("a.B", ())])
def test_what_is_no_mapping_is_refused(content):
    with pytest.raises(Refusal, match="must hold a state dict"):
        state_dict(content, "file")


def test_two_tensors_of_one_name_are_refused():
    with pytest.raises(Refusal, match=r"two tensors of the name `a\.b`"):
        state_dict({"a": {"b": T}, "a.b": T}, "file")


def test_mappings_that_hold_themselves_twice_end():
    inner = {"w": T}
    for _ in range(25):
        inner = {"a": inner, "b": inner}
    found, left = names(inner)
    assert len(found) == 1
    assert len(left) == 25


def test_mappings_in_mappings_end():
    inner = {"w": T}
    for _ in range(2 * DEEPEST):
        inner = {"a": inner}
    assert len(names(inner)[1]) == 1


def test_kinds_in_words():
    assert kind(Name("a.b")) == "an object of `a.b`, whose code is not run"
    assert kind("x") == "a value of type str"


def test_keys_that_are_no_words():
    assert names({"a": {3: T, -1: T, None: T}})[0] == ["a.-1", "a.3", "a.a value of type NoneType"]
    assert names({1 << 99_999: T})[0] == ["a value of type int"]


def test_long_names_are_refused():
    with pytest.raises(Refusal, match="names longer than 4096 letters"):
        state_dict({"a" * 5000: {"b": T}}, "file")


def adam():
    model = torch.nn.Linear(3, 2)
    optimizer = torch.optim.Adam(model.parameters())
    model(torch.ones(1, 3)).sum().backward()
    optimizer.step()
    return optimizer.state_dict()


@pytest.mark.parametrize("key", ["opt_G", "optimizer", "state", "model_ema_opt", "model"])
@pytest.mark.parametrize("old", [False, True])
def test_the_state_of_an_optimizer_is_no_weight_whatever_its_name(tmp_path, key, old):
    content = {"gen": {"w": torch.eye(2)}, key: adam(), "list": [adam(), torch.eye(3)]}
    torch.save(content, tmp_path / "a.pt", _use_new_zipfile_serialization=not old)
    found = open_checkpoint(tmp_path / "a.pt")
    assert not [t.name for t in found.tensors if "exp_avg" in t.name]
    assert "w" in {t.name.rpartition(".")[2] for t in found.tensors}
    assert any(t.name.startswith(key) for t in found.left_out)


@pytest.mark.parametrize("old", [False, True])
def test_a_file_of_nothing_but_an_optimizer_is_refused(tmp_path, old):
    torch.save(adam(), tmp_path / "a.pt", _use_new_zipfile_serialization=not old)
    with pytest.raises(Refusal, match=r"the state of an optimizer: name `model"):
        open_checkpoint(tmp_path / "a.pt")
