"""Losses of all that a model gives are losses of the studied tensor, or say what else they read."""

from collections import namedtuple

import pytest
import torch
from torch import nn
from torch.nn import functional as F

import sigmascope as ss
from sigmascope.diagnosis.programs.wholes import of_studied
from sigmascope.gate import Refusal

G = torch.Generator().manual_seed(0)
Z, Y = torch.randn(6, 3, generator=G), torch.arange(6).remainder(3)
Pair = namedtuple("Pair", "scores state")
CE = F.cross_entropy


def hf(**parts):
    transformers = pytest.importorskip("transformers")
    return transformers.modeling_outputs.SequenceClassifierOutput(**parts)


GIVEN = {
    "mapping by key": (lambda z: {"logits": z, "mask": z > 0}, lambda o, y: CE(o["logits"], y)),
    "mapping by get": (lambda z: {"logits": z}, lambda o, y: CE(o.get("logits"), y)),
    "hugging face": (lambda z: hf(logits=z), lambda o, y: CE(o.logits, y)),
    "hugging face by number": (lambda z: hf(logits=z), lambda o, y: CE(o[0], y)),
    "tuple by number": (lambda z: (z, None), lambda o, y: CE(o[0], y)),
    "tuple taken apart": (lambda z: (z, None), lambda o, y: CE(next(iter(o)), y)),
    "named tuple": (lambda z: Pair(z, None), lambda o, y: CE(o.scores, y)),
    "named tuple by number": (lambda z: Pair(z, None), lambda o, y: CE(o[0], y)),
    "list": (lambda z: [z], lambda o, y: CE(o[0], y)),
    "second of two": (lambda z: ((z > 0), z), lambda o, y: CE(o[1], y)),
}


@pytest.mark.parametrize("how", GIVEN)
def test_a_loss_of_the_whole(how):
    make, loss = GIVEN[how]
    mine = of_studied(loss, make(Z), Y)
    other = torch.randn(9, 3, generator=G).requires_grad_()  # as many samples as a step takes
    classes = torch.arange(9).remainder(3)
    assert mine(other, classes) == CE(other, classes)
    mine(other, classes).backward()
    assert other.grad.abs().sum() > 0


def test_a_loss_of_the_tensor_stays_as_it_is():
    assert of_studied(CE, {"logits": Z}, Y) is CE
    assert of_studied(CE, Z, Y) is CE
    broken = lambda o, y: 1 / 0
    assert of_studied(broken, (Z, Z), Y) is broken


@pytest.mark.parametrize(
    ("make", "loss", "name"),
    [
        (
            lambda z: {"logits": z, "mu": z + 1},
            lambda o, y: CE(o["logits"], y) + o["mu"].sum(),
            "mu",
        ),
        (lambda z: (z, z + 1), lambda o, y: CE(o[0], y) + o[1].sum(), "1"),
    ],
)
def test_what_else_a_loss_reads_is_named(make, loss, name):
    mine = of_studied(loss, make(Z), Y)
    with pytest.raises(Refusal, match=f"reads `{name}` of the output"):
        mine(Z, Y)


class Mapped(nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.net = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 3))

    def forward(self, x):
        return {"logits": self.net(x), "hidden": self.net[0](x)}


def test_it_is_diagnosed_as_a_loss_of_the_tensor_is():
    x = torch.randn(64, 8, generator=G)
    y = x[:, :3].argmax(1)
    options = {"optimizer": "adam", "lr": 0.01, "batch_size": 16}
    one = ss.diagnose(Mapped(), (x, y), loss=lambda o, y: CE(o["logits"], y), **options)
    other = ss.diagnose(Mapped(), (x, y), loss=CE, **options)
    assert one.findings == other.findings == ()
    assert one.profile.readings == other.profile.readings
    both = lambda o, y: CE(o["logits"], y) + o["hidden"].square().mean()
    (found,) = ss.diagnose(Mapped(), (x, y), loss=both, **options).findings
    assert found.name == "unfit-targets"
    assert "reads `hidden`" in found.says
