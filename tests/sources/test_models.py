import json

import pytest
import torch
from safetensors.torch import save_file, save_model
from torch import nn

from sigmascope import networks
from sigmascope.gate import Refusal
from sigmascope.sources import Data, Model, open_both, open_data, open_model

FILE = """
import torch
from torch import nn
def linear(): return nn.Linear(64, 5)
def narrow(): return nn.Linear(6, 5)
def double(): return nn.Linear(64, 5).double()
def conv(): return nn.Sequential(nn.Conv2d(1, 4, 3), nn.Flatten(), nn.LazyLinear(3))
def colour(): return nn.Conv2d(3, 4, 3)
def words(): return nn.Sequential(nn.Embedding(23, 4), nn.Flatten(), nn.Linear(32 * 4, 3))
def nothing(): return nn.ReLU()
class Tied(nn.Module):
    def __init__(self):
        super().__init__()
        self.words, self.head = nn.Embedding(9, 4), nn.Linear(4, 9, bias=False)
        self.head.weight = self.words.weight
    def forward(self, ids): return self.head(self.words(ids))
"""


@pytest.fixture
def mine(tmp_path):
    (tmp_path / "mine.py").write_text(FILE)
    return lambda name: f"{tmp_path / 'mine.py'}:{name}"


def generator(seed=0):
    return torch.Generator().manual_seed(seed)


# Built-in networks


def test_a_built_in_network_takes_its_shape_from_the_data():
    data = open_data("digits", samples=16)
    model = open_model("mlp?depth=2&width=8", data=data, generator=generator())
    assert isinstance(model, Model)
    assert model.module(data.inputs).shape == (16, 10)
    assert (model.origin, model.weights) == ("built-in", "random")
    again = networks.build(
        "mlp?depth=2&width=8", inputs=(1, 8, 8), outputs=10, generator=generator()
    )
    assert torch.equal(model.module.readout.weight, again.readout.weight)


@pytest.mark.parametrize(
    ("spec", "says"),
    [
        ("mlpp?depth=3", "Did you mean `mlp`"),
        ("mlp?dept=3", "Did you mean `depth`"),
        ("mlp?width=0", "1 or more, got 0"),
        ("mlp?width=10000000000", "GiB or more for its weights.*make `depth` or `width` smaller"),
        ("mlq", "There is no model `mlq`.*Did you mean `mlp`"),
        ("bert-base-uncased", "nothing is fetched"),
        ("weights.safetensors", "holds weights, not a model"),
        ("", "There is no model ``"),
    ],
)
def test_a_network_that_is_not_there_is_refused(as_users_see_it, spec, says):
    with pytest.raises(Refusal, match=says):
        open_model(spec, data=open_data("digits", samples=4))


def test_a_built_in_network_needs_data_of_one_tensor():
    pair = Data((torch.ones(2, 3), torch.ones(2, 3)), None, "pair", None)
    for data in (None, pair):
        with pytest.raises(Refusal, match="takes the shape of its inputs from the data"):
            open_model("mlp", data=data)
    with pytest.raises(Refusal, match="For data that are not images use `mlp`"):
        open_model("resnet", data=open_data("gaussian?shape=64"))


# Checkpoints


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
    with pytest.raises(Refusal, match=r"is a folder; name a file in it, one of `a\.pt`"):
        open_model(mine("linear"), checkpoint=tmp_path)


# Hugging Face folders

BERT = {
    "model_type": "bert", "architectures": ["BertForSequenceClassification"], "vocab_size": 30,
    "hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 24,
    "max_position_embeddings": 16, "num_labels": 3,
}  # fmt: skip


@pytest.fixture
def folder(tmp_path):
    pytest.importorskip("transformers")

    def write(**changes):
        home = tmp_path / "bert"
        home.mkdir(exist_ok=True)
        (home / "config.json").write_text(json.dumps({**BERT, **changes}))
        return home

    return write


def test_a_folder_with_a_config_alone_has_random_weights(folder):
    before = torch.get_rng_state()
    first, second = (open_model(str(folder()), generator=generator()) for _ in "ab")
    assert type(first.module).__name__ == "BertForSequenceClassification"
    assert not first.module.training
    assert first.origin == "hugging face"
    assert "random" in first.weights
    pairs = zip(first.module.parameters(), second.module.parameters(), strict=True)
    assert all(torch.equal(a, b) for a, b in pairs)
    assert torch.equal(torch.get_rng_state(), before)


def test_a_folder_with_weights_has_those(folder, tmp_path, capfd):
    model = open_model(str(folder())).module
    model.save_pretrained(tmp_path / "saved")
    capfd.readouterr()
    again = open_model(str(tmp_path / "saved"))
    assert again.weights == "from saved"
    assert not again.module.training
    pairs = zip(model.parameters(), again.module.parameters(), strict=True)
    assert all(torch.equal(a, b) for a, b in pairs)
    assert capfd.readouterr() == ("", "")


def test_weights_that_are_not_in_the_folder_are_named(folder, tmp_path):
    model = open_model(str(folder())).module
    model.bert.save_pretrained(tmp_path / "saved")
    path = tmp_path / "saved" / "config.json"
    path.write_text(
        json.dumps({**json.loads(path.read_text()), "architectures": BERT["architectures"]})
    )
    assert "except `classifier.bias`, `classifier.weight`" in open_model(str(path.parent)).weights


def test_a_folder_is_left_as_it_was(folder):
    home = folder()
    before = {p: p.read_bytes() for p in home.rglob("*")}
    open_model(str(home))
    assert {p: p.read_bytes() for p in home.rglob("*")} == before


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"model_type": "no-such-model"}, "transformers cannot build"),
        ({"architectures": ["NoSuchModel"]}, "needs the class `NoSuchModel`.*is not run"),
        ({"hidden_size": 15}, "transformers cannot build"),
        ({"hidden_size": "wide"}, "transformers cannot build"),
    ],
)
def test_a_config_that_makes_no_model_is_refused(folder, changes, says):
    with pytest.raises(Refusal, match=says) as refusal:
        open_model(str(folder(**changes)))
    assert "\n" not in str(refusal.value)


def test_a_folder_that_is_no_model_is_refused(folder, tmp_path):
    with pytest.raises(Refusal, match=r"without a config.json.*it holds nothing"):
        open_model(str(tmp_path))
    home = folder()
    (home / "config.json").write_text("{")
    with pytest.raises(Refusal, match="not valid JSON"):
        open_model(str(home))
    (home / "config.json").write_text("[]")
    with pytest.raises(Refusal, match="no `model_type`"):
        open_model(str(home))
    folder()
    (home / "model.safetensors").write_bytes(b"cut off")
    with pytest.raises(Refusal, match="transformers cannot build"):
        open_model(str(home))


def test_without_transformers_the_refusal_says_how_to_get_it(folder, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "transformers", None)
    with pytest.raises(Refusal, match=r"pip install 'sigmascope\[hf\]'"):
        open_model(str(folder()))


# A model and its data


@pytest.mark.parametrize(
    ("name", "data", "shape", "words"),
    [
        ("linear", None, (8, 64), "digits"),
        ("linear", "gaussian", (8, 64), "gaussian 64"),
        ("narrow", "gaussian", (8, 6), "gaussian 6"),
        ("double", None, (8, 64), "as float64"),
        ("conv", None, (8, 1, 8, 8), "digits"),
        ("words", None, (8, 32), "random tokens"),
        ("colour", "gaussian?shape=3x5x5", (8, 3, 5, 5), "gaussian 3x5x5"),
    ],
)
def test_data_are_found_for_a_model(mine, name, data, shape, words):
    model, found = open_both(mine(name), data=data, samples=8)
    assert found.inputs.shape == shape
    assert words in found.name
    model.module(found.inputs)


@pytest.mark.parametrize(
    ("name", "data", "says"),
    [
        ("narrow", None, "begins with Linear.*`--data gaussian`"),
        ("colour", None, "begins with Conv2d.*`--data cifar10`"),
        ("colour", "gaussian", "needs the shape"),
        ("nothing", None, "ReLU has no parameters.*--data FILE"),
        ("linear", "digit", "Did you mean `digits`"),
    ],
)
def test_a_model_whose_inputs_cannot_be_told_is_refused(mine, name, data, says):
    with pytest.raises(Refusal, match=says):
        open_both(mine(name), data=data)


def test_a_built_in_network_is_given_digits():
    model, data = open_both("mlp?depth=1", samples=8, generator=generator())
    assert model.module(data.inputs).shape == (8, 10)


@pytest.mark.parametrize(
    "name", ["transformers-bert", "transformers-gpt2", "transformers-vit", "transformers-t5",
             "transformers-llama", "language-model-tied"],
)  # fmt: skip
def test_language_and_vision_models_are_given_what_they_take(name):
    pytest.importorskip("transformers")
    from models_zoo import MODELS, call

    from sigmascope.sources import default_data

    model, _ = MODELS[name]()
    data = default_data(model, samples=4)
    assert "random tokens" in data.name or "gaussian" in data.name
    call(model, data.inputs)
    again = default_data(model, samples=4)
    assert all(torch.equal(a, b) for a, b in zip(tensors(data), tensors(again), strict=True))


def tensors(data):
    return data.inputs.values() if isinstance(data.inputs, dict) else [data.inputs]
