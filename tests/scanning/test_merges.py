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
