"""An adapter on its base is compared as the merged weights would be."""

import json

import pytest
import torch
from safetensors.torch import save_file

from sigmascope.scanning import scan

G = torch.Generator().manual_seed(4)
NAMES = ("layers.0.q_proj", "layers.1.q_proj")
BASE = {f"model.{name}.weight": torch.randn(48, 32, generator=G) for name in NAMES}
LEFT = {name: 0.3 * torch.randn(48, 4, generator=G) for name in NAMES}
RIGHT = {name: torch.randn(4, 32, generator=G) for name in NAMES}


@pytest.fixture
def adapter(tmp_path):
    folder = tmp_path / "adapter"
    folder.mkdir()
    settings = {"peft_type": "LORA", "r": 4, "lora_alpha": 8, "target_modules": ["q_proj"]}
    (folder / "adapter_config.json").write_text(json.dumps(settings))
    save_file(
        {f"base_model.model.model.{n}.lora_A.weight": RIGHT[n] for n in NAMES}
        | {f"base_model.model.model.{n}.lora_B.weight": LEFT[n] for n in NAMES},
        folder / "adapter_model.safetensors",
    )
    save_file(BASE | {"model.head.weight": torch.ones(9, 9)}, tmp_path / "base.safetensors")
    return folder


def numbers(found):
    return {(r.site, r.quantity): r.estimate.value for r in found.readings}


def test_alone_it_is_the_product(adapter):
    found = scan(adapter)
    for name in NAMES:
        dense = torch.linalg.svdvals((2.0 * LEFT[name] @ RIGHT[name]).double())
        value = numbers(found)[f"model.{name}.weight", "spectral norm"]
        assert value == pytest.approx(float(dense[0]), rel=1e-6)
        assert numbers(found)[f"model.{name}.weight", "matrix rank"] == 4


def test_on_its_base_it_is_the_merged_weight(adapter, tmp_path):
    merged = {
        f"model.{n}.weight": BASE[f"model.{n}.weight"] + 2.0 * LEFT[n] @ RIGHT[n] for n in NAMES
    }
    ours = numbers(scan(tmp_path / "base.safetensors", against=adapter))
    theirs = numbers(scan(BASE, against=merged))
    assert set(ours) == set(theirs)
    assert len(ours) >= 2 * 7
    for key, value in ours.items():
        assert value == pytest.approx(theirs[key], rel=1e-3, abs=1e-6), key


def test_what_it_does_not_touch_is_said(adapter, tmp_path):
    save_file({"model.layers.0.q_proj.weight": torch.ones(48, 30)}, tmp_path / "other.safetensors")
    found = scan(tmp_path / "base.safetensors", against=adapter)
    assert ("model.head.weight", "the adapter leaves it as it is") in {
        (s.site, s.why) for s in found.plan.skipped
    }
    said = {
        s.site: s.why for s in scan(tmp_path / "other.safetensors", against=adapter).plan.skipped
    }
    assert "shape [48, 30]" in said["model.layers.0.q_proj.weight"]
    assert "no weight of that name" in said["model.layers.1.q_proj.weight"]


def saved_adapter(folder, model, **settings):
    """An adapter that PEFT made and saved; the names and values of the weights that it merges."""
    peft = pytest.importorskip("peft")
    torch.manual_seed(0)
    tuned = peft.get_peft_model(model, peft.LoraConfig(r=2, lora_alpha=8, **settings))
    with torch.no_grad():
        for name, p in tuned.named_parameters():
            if "lora_" in name:
                p.normal_()
    tuned.save_pretrained(folder)
    return {k: v.clone() for k, v in tuned.merge_and_unload().state_dict().items()}


def gpt2():
    transformers = pytest.importorskip("transformers")
    torch.manual_seed(1)
    config = transformers.GPT2Config(
        n_layer=1, n_embd=24, n_head=2, vocab_size=24, n_positions=16, tie_word_embeddings=False
    )
    return transformers.GPT2LMHeadModel(config)


@pytest.mark.filterwarnings("ignore")  # PEFT mends `fan_in_fan_out` as it goes, and says so
@pytest.mark.parametrize(
    "targets",
    [["c_proj"], ["c_attn", "c_fc"], ["c_proj", "lm_head"], ["lm_head", "c_attn"], ["wte"]],
)
@pytest.mark.parametrize("inward", [True, False])
def test_what_lies_transposed_is_changed_transposed(tmp_path, targets, inward):
    """Square weights too, of which the shape does not tell."""
    before = {k: v.clone() for k, v in gpt2().state_dict().items()}
    (tmp_path / "base").mkdir()
    base = gpt2()
    base.save_pretrained(tmp_path / "base")
    after = saved_adapter(tmp_path / "tuned", base, target_modules=targets, fan_in_fan_out=inward)
    ours = numbers(scan(tmp_path / "base", against=tmp_path / "tuned", effort="full"))
    moved = {k for k, v in after.items() if k in before and not torch.equal(v, before[k])}
    assert moved
    for name in moved:
        change = torch.linalg.matrix_norm((after[name] - before[name]).double())
        size = torch.linalg.matrix_norm(before[name].double())
        found = {site: v for (site, q), v in ours.items() if q == "relative change"}
        (site,) = (s for s in found if name.endswith(s) or s.endswith(name))
        assert found[site] == pytest.approx(float(change / size), rel=1e-3)
        angle = {s: v for (s, q), v in ours.items() if q == "best scale"}[site]
        inner = (before[name].double() * after[name].double()).sum()
        assert angle == pytest.approx(float(inner / size**2), rel=1e-3, abs=1e-4)


@pytest.mark.parametrize(
    ("start", "declined"),
    [
        ("pissa", True),
        ("pissa_niter_4", True),
        ("olora", True),
        ("corda", True),
        ("loftq", True),
        ("lora_ga", True),
        ("gaussian", False),
        ("orthogonal", False),
        (True, False),
        (None, False),
    ],
)
def test_starts_that_change_the_base_are_declined(adapter, tmp_path, start, declined):
    file = adapter / "adapter_config.json"
    settings = json.loads(file.read_text())
    file.write_text(json.dumps(settings | {"init_lora_weights": start}))
    found = scan(tmp_path / "base.safetensors", against=adapter)
    whys = [s.why for s in found.plan.skipped if "changes the base as well" in s.why]
    assert len(whys) == (len(NAMES) if declined else 0)
    assert bool(found.readings) is not declined
    assert len(scan(adapter).series("spectral norm")) == len(NAMES)  # alone it is what it is
