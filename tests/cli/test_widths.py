"""`sigmascope widths`."""

import json
from pathlib import Path

import pytest

NET = """
from torch import nn

def make(width):
    layers = nn.Linear(64, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU()
    return nn.Sequential(nn.Flatten(), *layers, nn.Linear(width, 10))

def same(width):
    return make(8)

def program(width):
    import torch
    g = torch.Generator().manual_seed(0)
    x = torch.randn(64, 1, 8, 8, generator=g)
    return {"model": make(width), "data": (x, torch.arange(64) % 10), "optimizer": "sgd", "lr": 0.1}

number = 3
"""
DEEP = """
from torch import nn

class Layer(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.norm, self.map = nn.LayerNorm(width), nn.Linear(width, width)

    def forward(self, x):
        return x + self.map(self.norm(x)).relu()

def make(width, depth):
    layers = [Layer(width) for _ in range(depth)]
    return nn.Sequential(nn.Flatten(), nn.Linear(64, width), *layers, nn.Linear(width, 10))
"""
FEW = ("--seeds", "2", "--steps", "1")


@pytest.fixture
def net(sigmascope):
    Path("net.py").write_text(NET)
    return sigmascope


def test_who_is_in_the_way_is_said_and_cured(net):
    code, out, _ = net(
        "widths", "net.py:make", "--data", "digits", "--lr", "1e-3", "--cure", "--strict",
        "--json", "found.json", "--steps", "1",
    )  # fmt: skip
    assert code == 1  # something is in the way
    assert "exploding" in out
    assert "rates = {" in out
    found = json.loads(Path("found.json").read_text())
    assert found["schema"] == "sigmascope/widths/1"
    assert found["widths"] == [64, 128, 256, 512]
    named = {o["name"] for o in found["obstacles"]}
    assert {"3.weight", "5.weight"} == named
    assert found["cure"]["rates"]["3.weight"] == -1
    verdicts = {w["verdict"] for w in found["after"]}
    assert verdicts <= {"maximal", "cannot be told"}
    assert "\n".join(found["code"]) in out.replace("\n    'x'", "")


def test_data_are_guessed_and_a_program_brings_its_own(net):
    for name in ("make", "program"):
        code, out, _ = net("widths", f"net.py:{name}", "--widths", "8", "16", *FEW)
        assert code == 0
        assert "cannot be told" in out
    assert "sgd at 0.1" in out


def test_a_figure_is_drawn(net):
    pytest.importorskip("matplotlib")
    few = ("--widths", "8", "16", *FEW)
    code, *_ = net("widths", "net.py:make", *few, "--plot", "found.svg")
    assert code == 0
    assert (
        "0.weight" in Path("found.svg").read_text() or "1.weight" in Path("found.svg").read_text()
    )


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("mlp?depth=3",), "function of a width"),
        (("net.py:number",), "function of a width"),
        (("net.py:same",), "argument"),
        (("net.py:absent",), "absent"),
        (("net.py:make", "--widths", "8"), "two or more"),
        (("net.py:make", "--optimizer", "adem"), "adam"),
    ],
)
def test_what_cannot_be_done_is_refused(net, words, says):
    code, out, said = net("widths", *words, *FEW)
    assert code == 2
    assert not out
    assert says in said


def test_depths_of_one_width_and_a_page(net):
    Path("deep.py").write_text(DEEP)
    code, out, _ = net(
        "widths", "deep.py:make", "--widths", "8", "--depths", "1", "2", "4", "--html", "page.html",
        *FEW,
    )  # fmt: skip
    assert code == 0
    assert "depth 1 holds at depth 4" in out
    assert "*.map.weight" in out
    assert "depth 1 holds at depth 4" in Path("page.html").read_text()


def test_a_configuration_of_transformers_with_the_name_of_its_width(net):
    pytest.importorskip("transformers")
    Path("gpt").mkdir()
    config = {
        "model_type": "gpt2", "architectures": ["GPT2LMHeadModel"], "vocab_size": 20, "n_embd": 8,
        "n_layer": 1, "n_head": 2, "n_positions": 8, "bos_token_id": 0, "eos_token_id": 0,
    }  # fmt: skip
    Path("gpt/config.json").write_text(json.dumps(config))
    sizes = {"n_embd": ("--widths", "8", "16"), "n_layer": ("--depths", "1", "2")}
    for place in ("gpt", "gpt/config.json"):
        for field, chosen in sizes.items():
            code, out, _ = net("widths", place, "--field", field, *chosen, *FEW)
            assert code == 0
            assert "attn" in out
    code, _, err = net("widths", "gpt", "--field", "n_embed", "--widths", "8", "16", *FEW)
    assert code == 2
    assert "n_embd" in err
