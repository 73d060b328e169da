import torch
from torch import nn

from sigmascope.sources.stored import open_checkpoint
from tests.sources.stored.checks import by_name, numbers, opens, raw_names


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
