"""Attention is heard in fused kernels, in softmaxes and in layers of torch."""

import math

import pytest
import torch
from torch import nn
from torch.nn import functional as F
from torch.overrides import _get_current_function_mode_stack

from sigmascope.watching.probes.attention import ENTROPIES, of_heads, of_products, of_softmax
from tests.watching.made import at_leisure, passed


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


def entropies(model, x):
    shelf = passed(model, x, steps=4, only=["attention"])
    return {(r.site, r.form): r.estimate.value for r in shelf.readings()
            if r.quantity == "attention entropy"}  # fmt: skip


def test_fused_and_written_out_attention_have_one_entropy():
    torch.manual_seed(0)
    x = torch.randn(3, 5, 8)
    found = []
    for fused in (True, False):
        torch.manual_seed(1)
        found.append(entropies(nn.Sequential(nn.Linear(8, 8), Fused(fused)), x))
    assert found[0].keys() == {("1", ""), ("1", "least head")}
    assert found[0] == pytest.approx(found[1], rel=1e-5)


def test_layers_of_torch_are_heard():
    torch.manual_seed(0)
    layer = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)
    found = entropies(nn.Sequential(layer), torch.randn(3, 5, 8))
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
    shelf = passed(model, torch.randn(3, 8), steps=12, only=["attention"])
    said = [s for look in shelf.looks for s in look.skipped]
    assert [(s.what, s.why) for s in said] == [
        ("attention", "nothing of it is heard in this model")
    ]


def direct(p, seen):
    """By definition, for every query with more than one key in sight."""
    keys = seen.sum(-1).double()
    entropy = -(p.double() * p.double().clamp_min(1e-300).log()).sum(-1)
    return entropy / keys.log()


def test_fused_attention_is_that_of_its_probabilities():
    torch.manual_seed(0)
    q, k = torch.randn(2, 2, 3, 6, 4)
    p = (q @ k.mT / 2).softmax(-1)
    wanted = direct(p, torch.ones_like(p, dtype=torch.bool)).float()
    torch.testing.assert_close(of_products(None, q, k, k), wanted, rtol=1e-5, atol=1e-6)


def test_keys_that_are_hidden_are_not_in_sight():
    torch.manual_seed(0)
    q, k, v = (torch.randn(1, 2, 5, 4) for _ in range(3))
    seen = torch.ones(5, 5).tril().bool()
    scores = (q @ k.mT / 2).masked_fill(~seen, -math.inf)
    wanted = direct(scores.softmax(-1), seen.expand_as(scores))[..., 1:]
    for found in (
        of_products(v, q, k, v, is_causal=True),
        of_products(v, q, k, v, attn_mask=seen),
        of_products(v, q, k, v, attn_mask=torch.zeros(5, 5).masked_fill(~seen, -math.inf)),
    ):
        assert bool(found[..., 0].isnan().all())  # one key in sight: no choice
        torch.testing.assert_close(found[..., 1:], wanted.float(), rtol=1e-5, atol=1e-6)


def test_shared_keys_of_grouped_heads_are_repeated():
    torch.manual_seed(0)
    q, k = torch.randn(1, 4, 5, 4), torch.randn(1, 2, 5, 4)
    found = of_products(q, q, k, k, enable_gqa=True)
    wanted = of_products(q, q, k.repeat_interleave(2, 1), k)
    torch.testing.assert_close(found, wanted)


def test_equal_attention_has_one_and_a_single_key_has_zero():
    k = torch.zeros(1, 1, 4, 2)
    torch.testing.assert_close(of_products(k, k, k, k), torch.ones(1, 1, 4))
    p = torch.eye(4)[None, None]
    torch.testing.assert_close(of_softmax(p, p, -1), torch.zeros(1, 1, 4))


@pytest.mark.parametrize("padded", [False, True])
def test_multi_head_attention_is_that_of_its_weights(padded):
    torch.manual_seed(0)
    layer = nn.MultiheadAttention(8, 2, batch_first=False).double()
    x = torch.randn(5, 3, 8, dtype=torch.float64)
    padding = torch.zeros(3, 5, dtype=torch.bool)
    padding[:, 4] = padded
    _, weights = layer(x, x, x, key_padding_mask=padding, average_attn_weights=False)
    seen = (~padding)[:, None, None].expand_as(weights)
    given = (8, 2, layer.in_proj_weight, layer.in_proj_bias)
    found = of_heads(None, x, x, x, *given, key_padding_mask=padding)
    torch.testing.assert_close(found, direct(weights, seen).float(), rtol=1e-4, atol=1e-6)


def test_softmaxes_of_other_shapes_are_no_attention():
    p = torch.randn(3, 4).softmax(-1)
    assert of_softmax(p, p, -1) is None
    assert of_softmax(p[None, None], p[None, None], 2) is None
    assert F.softmax in ENTROPIES


@pytest.mark.parametrize(("keys", "read"), [(1, False), (2, True)])
def test_of_a_single_key_there_is_nothing_to_choose(keys, read):
    layer = nn.MultiheadAttention(4, 2)
    q, k = torch.randn(3, 5, 4), torch.randn(keys, 5, 4)
    found = of_heads(None, q, k, k, 4, 2, layer.in_proj_weight, layer.in_proj_bias)
    assert (found is not None) == read
