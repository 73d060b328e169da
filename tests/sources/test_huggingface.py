import json
import os

import pytest
import torch

from sigmascope.core import guard
from sigmascope.core.guard import Refusal
from sigmascope.sources import open_model


def generator(seed=0):
    return torch.Generator().manual_seed(seed)


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
    before, home = torch.get_rng_state(), folder()
    held = {p: p.read_bytes() for p in home.rglob("*")}
    first, second = (open_model(str(home), generator=generator()) for _ in "ab")
    assert {p: p.read_bytes() for p in home.rglob("*")} == held
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


@pytest.mark.parametrize(
    ("name", "content", "says"),
    [
        ("config.json", None, r"without a config.json.*it holds nothing"),
        ("config.json", "{", "not valid JSON"),
        ("config.json", "[]", "a JSON object"),
        ("model.safetensors", "cut off", "transformers cannot build"),
    ],
)
def test_a_folder_that_is_no_model_is_refused(folder, name, content, says):
    home = folder()
    (home / name).unlink(missing_ok=True)
    if content is not None:
        (home / name).write_text(content)
    with pytest.raises(Refusal, match=says):
        open_model(str(home))


def test_without_transformers_the_refusal_says_how_to_get_it(folder, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "transformers", None)
    with pytest.raises(Refusal, match=r"pip install 'sigmascope\[hf\]'"):
        open_model(str(folder()))


@pytest.mark.parametrize(
    ("name", "make"),
    [
        ("model.safetensors", os.mkfifo),
        ("tokenizer.json", os.mkfifo),
        ("generation_config.json", lambda path: path.symlink_to("/dev/zero")),
        ("config.json", lambda path: (path.unlink(), os.mkfifo(path))),
    ],
)
def test_nothing_in_a_folder_is_waited_for(name, make, folder):
    home = folder()
    make(home / name)
    with pytest.raises(Refusal, match=r"device, pipe or socket|without a config"):
        open_model(str(home))


@pytest.mark.parametrize("shard", ["../other.safetensors", "/dev/zero", "none.safetensors"])
def test_an_index_names_files_of_its_own_folder(shard, folder):
    home = folder()
    where = {"metadata": {}, "weight_map": {"classifier.bias": shard}}
    (home / "model.safetensors.index.json").write_text(json.dumps(where))
    with pytest.raises(Refusal, match=r"index.json"):
        open_model(str(home))


def test_transformers_is_asked_for_nothing_that_is_not_in_the_folder(folder, tmp_path, monkeypatch):
    import transformers

    open_model(str(folder())).module.save_pretrained(tmp_path / "saved")
    asked = []
    for kind in (transformers.AutoConfig, transformers.PreTrainedModel):
        usual = kind.from_pretrained.__func__

        def told(cls, path, *args, usual=usual, **how):
            asked.append(how.get("local_files_only"))
            return usual(cls, path, *args, **how)

        monkeypatch.setattr(kind, "from_pretrained", classmethod(told))
    open_model(str(tmp_path / "saved"))
    assert len(asked) >= 2
    assert all(asked)


def test_a_model_that_memory_does_not_hold_is_not_built(folder):
    size = sum(p.numel() * p.element_size() for p in open_model(str(folder())).module.parameters())
    with guard.memory(size):
        open_model(str(folder()))
    with guard.memory(size - 1), pytest.raises(Refusal, match=r"The model of .* needs"):
        open_model(str(folder()))
