import json
from math import sqrt

import pytest
import torch
from safetensors.torch import save_file
from torch import nn

from sigmascope.checkpoints import open_checkpoint
from tests.checkpoints.checks import numbers, raw_names, reads

SETTINGS = {"peft_type": "LORA", "r": 2, "lora_alpha": 8}


def adapter(folder, state, **settings):
    save_file(state, folder / "adapter_model.safetensors")
    (folder / "adapter_config.json").write_text(json.dumps(SETTINGS | settings))
    found = open_checkpoint(folder)
    assert raw_names(found) == sorted(state)
    kind = "LoRA" if settings.get("peft_type", "LORA") == "LORA" else "PEFT"
    assert found.format == f"{kind} adapter"
    return found


def pair(layer, rank=2, inner=5, outer=4, kind="", tail=".weight"):
    stem = f"base_model.model.{layer}.lora_{kind}"
    return {f"{stem}A{tail}": numbers(rank, inner), f"{stem}B{tail}": numbers(outer, rank, seed=1)}


def test_pairs_are_found_with_their_scale(tmp_path):
    found = adapter(tmp_path, pair("model.q") | pair("model.k", inner=3))
    one, two = found.adapters
    assert {one.name, two.name} == {"model.q.weight", "model.k.weight"}
    assert (one.scaling, two.scaling) == (4.0, 4.0)
    by_name = {a.name: a for a in found.adapters}
    reads(by_name["model.q.weight"].A, numbers(2, 5))
    reads(by_name["model.q.weight"].B, numbers(4, 2, seed=1))
    assert found.config["r"] == 2


@pytest.mark.parametrize(
    ("settings", "scaling"),
    [
        ({"use_rslora": True}, 8 / sqrt(2)),
        ({"alpha_pattern": {"q": 6}}, 3),
        ({"alpha_pattern": {"model.q": 6}}, 3),
        ({"alpha_pattern": {r"model\..*q": 6}}, 3),
        ({"alpha_pattern": {"k": 6}}, 4),
        ({"alpha_pattern": {"el.q": 6}}, 4),
        ({"r": 16, "rank_pattern": {"q": 2}}, 4),
        ({"alpha_pattern": {"(k|q)": 6}}, 3),
        ({"alpha_pattern": {r"model\.(k|v)": 6, "layers.*": 6}}, 4),
    ],
)
def test_settings_of_a_layer_are_honoured(tmp_path, settings, scaling):
    (found,) = adapter(tmp_path, pair("model.q"), **settings).adapters
    assert found.scaling == pytest.approx(scaling)


@pytest.mark.parametrize("settings", [{"fan_in_fan_out": True}, {}])
def test_changes_of_transposed_weights_are_turned(tmp_path, settings):
    kind, tail = ("", ".weight") if settings else ("embedding_", "")
    state = pair("words", kind=kind, tail=tail)
    (found,) = adapter(tmp_path, state, **settings).adapters
    reads(found.A, numbers(4, 2, seed=1).T.contiguous())
    reads(found.B, numbers(2, 5).T.contiguous())
    assert found.name == "words.weight"


@pytest.mark.parametrize(("start", "shifted"), [("PiSSA_niter_4", True), ("gaussian", False)])
def test_a_pair_whose_start_was_taken_off_the_base_says_so(tmp_path, start, shifted):
    (found,) = adapter(tmp_path, pair("q"), init_lora_weights=start).adapters
    assert (
        found.shifted.startswith(f"adapter_config.json says `init_lora_weights={start}`") == shifted
    )
    assert bool(found.shifted) == shifted


def test_modules_trained_whole_stay_tensors(tmp_path):
    found = adapter(tmp_path, pair("q") | {"base_model.model.head.weight": numbers(3, 3)})
    assert [t.name for t in found.tensors] == ["head.weight"]


@pytest.mark.parametrize(
    ("state", "settings", "says"),
    [
        (pair("q") | {"base_model.model.q.lora_magnitude_vector": numbers(4)}, {}, "Of DoRA"),
        ({"base_model.model.q.lora_A.weight": numbers(2, 3)}, {}, "other one is not in the file"),
        ({n: t[..., None].repeat(1, 1, 3) for n, t in pair("c").items()}, {}, "no two matrices"),
        (pair("q") | {"base_model.model.q.lora_B.weight": numbers(4, 3)}, {}, "no product"),
        (pair("q"), {"lora_alpha": None}, "its scale is not known"),
        (pair("q"), {"lora_alpha": float("nan")}, "its scale is not known"),
        (pair("q"), {"lora_alpha": 10**400}, "its scale is not known"),
        (pair("q"), {"lora_alpha": "8"}, "its scale is not known"),
        (pair("q"), {"r": 3}, "says otherwise"),
        (pair("q"), {"peft_type": "LOHA"}, "kind LOHA"),
        (pair("q", rank=0), {"r": 0}, "rank 0"),
        (pair("q"), {"alpha_pattern": {"(": 6}}, "takes too long, or is damaged"),
        (pair("a" * 90), {"alpha_pattern": {"(a*)*b": 6}}, "takes too long"),
        (pair("a" * 90), {"alpha_pattern": {".*.*.*.*x": 6}}, "takes too long"),
        (pair("a" * 90), {"alpha_pattern": {"a?" * 40 + "a" * 60 + "b": 6}}, "takes too long"),
        (pair("a" * 90), {"rank_pattern": {"(a|a)" * 30 + "b": 6}}, "takes too long"),
    ],
)
def test_what_is_no_pair_is_left_out_with_its_reason(tmp_path, state, settings, says):
    found = adapter(tmp_path, state, **settings)
    assert not found.adapters
    assert any(says in entry.why for entry in found.left_out)


class Small(nn.Module):
    def __init__(self):
        super().__init__()
        self.words, self.inner = nn.Embedding(7, 6), nn.Linear(6, 5, bias=False)
        self.conv, self.wide = nn.Conv1d(5, 3, 1), nn.Conv1d(3, 4, 2)

    def forward(self, ids):
        return self.wide(self.conv(self.inner(self.words(ids)).mT))


@pytest.mark.filterwarnings("ignore::Warning")
@pytest.mark.parametrize("stabilised", [False, True])
def test_products_are_those_that_peft_adds(tmp_path, stabilised):
    peft = pytest.importorskip("peft")
    config = peft.LoraConfig(
        r=4,
        lora_alpha=6,
        use_rslora=stabilised,
        target_modules=["words", "inner", "conv", "wide"],
        rank_pattern={"inner": 2},
        alpha_pattern={"words": 10},
        init_lora_weights=False,
    )
    model = peft.get_peft_model(Small(), config)
    model.save_pretrained(tmp_path)
    before = {n: t.clone() for n, t in model.get_base_model().state_dict().items()}
    found = open_checkpoint(tmp_path)
    merged = model.merge_and_unload().state_dict()
    assert sorted(a.name for a in found.adapters) == [
        "conv.weight",
        "inner.weight",
        "wide.weight",
        "words.weight",
    ]
    for a in found.adapters:
        old = before[a.name.replace(".weight", ".base_layer.weight")]
        change = a.scaling * a.B.read() @ a.A.read()
        assert change.shape == (a.B.shape[0], a.A.shape[1])
        assert torch.allclose((merged[a.name] - old).flatten(1), change, atol=1e-5)
    assert not found.left_out


def test_biases_of_a_change_are_named_and_not_taken_for_a_side(tmp_path):
    names = ("q.lora_B.bias", "a.lora_A.bias")
    bias = {f"base_model.model.{name}": numbers(4) for name in names}
    found = adapter(tmp_path, pair("q") | bias)
    assert [a.name for a in found.adapters] == ["q.weight"]
    reads(found.adapters[0].B, numbers(4, 2, seed=1))
    assert {t.name for t in found.tensors} == set(names)


def test_a_second_adapter_on_a_layer_is_named(tmp_path):
    state = pair("q", tail=".one.weight") | pair("q", tail=".two.weight")
    found = adapter(tmp_path, state)
    assert len(found.adapters) == 1
    left = {t.name.rpartition("lora_")[2]: t.why for t in found.left_out}
    assert set(left) == {"A.two.weight", "B.two.weight"}
    assert all("save each by itself" in why for why in left.values())
