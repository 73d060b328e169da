"""Attention is heard in fused kernels, in softmaxes and in layers of torch."""

import pytest
import torch
from torch import nn
from torch.nn import functional as F
from torch.overrides import _get_current_function_mode_stack

from tests.watching.made import Shelf, at_leisure


class Fused(nn.Module):
    def __init__(self, fused=True):
        super().__init__()
        self.qkv = nn.Linear(8, 24)
        self.fused = fused

    def forward(self, x):
        q, k, v = self.qkv(x).unflatten(-1, (3, 2, 4)).permute(2, 0, 3, 1, 4)
        if self.fused:
            out = F.scaled_dot_product_attention(q, k, v)
        else:
            out = F.softmax(q @ k.mT / 2, dim=-1) @ v
        return out.transpose(1, 2).flatten(2)


def watched(model, x, steps=4):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.0)
    shelf = Shelf()
    with at_leisure(model, optimizer, sinks=[shelf], only=["attention"]):
        for _ in range(steps):
            model(x).sum().backward()
            optimizer.step()
    return shelf


def entropies(shelf):
    return {(r.site, r.form): r.estimate.value for r in shelf.readings()
            if r.quantity == "attention entropy"}  # fmt: skip


def test_fused_and_written_out_attention_have_one_entropy():
    torch.manual_seed(0)
    x = torch.randn(3, 5, 8)
    found = []
    for fused in (True, False):
        torch.manual_seed(1)
        found.append(entropies(watched(nn.Sequential(nn.Linear(8, 8), Fused(fused)), x)))
    assert found[0].keys() == {("1", ""), ("1", "least head")}
    assert found[0] == pytest.approx(found[1], rel=1e-5)


def test_layers_of_torch_are_heard():
    torch.manual_seed(0)
    layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)
    found = entropies(watched(nn.Sequential(layer), torch.randn(3, 5, 8)))
    assert ("0.self_attn", "") in found
    assert 0 < found["0.self_attn", "least head"] <= found["0.self_attn", ""] <= 1


def test_no_mode_is_left_behind_when_a_pass_fails():
    class Failing(Fused):
        def forward(self, x):
            super().forward(x)
            raise RuntimeError("of the user's")

    model = Failing()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    watching = at_leisure(model, optimizer, only=["attention"])
    optimizer.step()
    with pytest.raises(RuntimeError, match="of the user's"):
        model(torch.randn(3, 5, 8))
    assert _get_current_function_mode_stack() == []
    watching.close()


def test_a_model_without_attention_is_asked_no_more_and_says_so():
    model = nn.Sequential(nn.Linear(8, 8))
    shelf = watched(model, torch.randn(3, 8), 12)
    said = [s for look in shelf.looks for s in look.skipped]
    assert [(s.what, s.why) for s in said] == [
        ("attention", "nothing of it is heard in this model")
    ]
