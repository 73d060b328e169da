"""What is cut out of a fused tensor is what the model's own code takes out of it."""

import pytest
import torch
from torch import nn

from sigmascope.scanning import plan
from sigmascope.scanning.matrices import Heads, NameRule, pieces, whole
from sigmascope.sources.checkpoints import open_checkpoint
from tests.scanning.cut_out import kinds, matrices, words
from tests.scanning.families import model

QKV = {"q": "attention query", "k": "attention key", "v": "attention value"}


def thirds(W):  # chunk(3, dim=2), and GPT-2's split of what Conv1D gives
    return dict(zip("qkv", W.chunk(3), strict=True))


def each_head(W, heads=4):  # view(..., heads, 3, size): the three of a head lie together
    parts = W.view(heads, 3, -1, W.shape[1]).unbind(1)
    return {n: p.reshape(-1, W.shape[1]) for n, p in zip("qkv", parts, strict=True)}


def each_group(W, groups, heads=4):  # view(..., groups, heads // groups + 2, size)
    G = W.view(groups, heads // groups + 2, -1, W.shape[1])
    parts = G[:, :-2], G[:, -2], G[:, -1]
    return {n: p.reshape(-1, W.shape[1]) for n, p in zip("qkv", parts, strict=True)}


def of_four(W):  # CodeGen: reshape(..., 4, -1), then query, value, key
    parts = W.view(4, 3, -1, W.shape[1]).unbind(1)
    return {n: p.reshape(-1, W.shape[1]) for n, p in zip("qvk", parts, strict=True)}


FUSED = {
    "gpt2": ("transformer.h.1.attn.c_attn", lambda W: thirds(W.T)),
    "bigcode": ("transformer.h.1.attn.c_attn",
                lambda W: dict(zip("qkv", W.split((32, 8, 8)), strict=True))),
    "bigcode of many": ("transformer.h.1.attn.c_attn", each_head),
    "phi3": ("model.layers.1.self_attn.qkv_proj",
             lambda W: dict(zip("qkv", W.split((32, 16, 16)), strict=True))),
    "neox": ("gpt_neox.layers.1.attention.query_key_value", each_head),
    "bloom": ("transformer.h.1.self_attention.query_key_value", each_head),
    "falcon": ("transformer.h.1.self_attention.query_key_value", lambda W: each_group(W, 1)),
    "falcon of many": ("transformer.h.1.self_attention.query_key_value", each_head),
    "falcon of groups": ("transformer.h.1.self_attention.query_key_value",
                         lambda W: each_group(W, 2)),
    "mpt": ("transformer.blocks.1.attn.Wqkv", thirds),
    "codegen": ("transformer.h.1.attn.qkv_proj", of_four),
    "modernbert": ("model.layers.1.attn.Wqkv", thirds),
    "deberta": ("deberta.encoder.layer.1.attention.self.in_proj", each_head),
}  # fmt: skip


@pytest.mark.parametrize("name", FUSED)
def test_query_key_and_value_are_the_rows_that_the_model_takes(name):
    site, split = FUSED[name]
    state = model(name).state_dict()
    cut, kind = matrices(model(name)), kinds(model(name))
    for part, truth in split(state[f"{site}.weight"]).items():
        assert torch.equal(cut[f"{site}.weight[{part}]"], truth), part
        assert kind[f"{site}.weight[{part}]"] == QKV[part]
    assert f"{site}.weight" not in cut


def test_the_values_of_a_fused_layer_are_those_that_attention_gets():
    """What neox and falcon hand to their attention, without a word of how they store it."""
    x = torch.randn(1, 3, 32)
    for name, layer in (("bloom", "transformer.h.0.self_attention"),):
        attention = model(name).get_submodule(layer)
        fused = attention.query_key_value(x)
        value = attention._reshape(fused)[2]  # [batch, heads, places, size]
        site = f"{layer}.query_key_value"
        weight = matrices(model(name))[f"{site}.weight[v]"]
        bias = attention.query_key_value.bias.view(4, 3, 8)[:, 2].reshape(-1)
        torch.testing.assert_close(
            value.transpose(1, 2).reshape(1, 3, 32), x @ weight.T + bias, atol=1e-5, rtol=1e-5
        )
    attention = model("falcon of groups").transformer.h[0].self_attention
    query, _, value = attention._split_heads(attention.query_key_value(x))
    cut = matrices(model("falcon of groups"))
    site = "transformer.h.0.self_attention.query_key_value.weight"
    torch.testing.assert_close(query.reshape(1, 3, 32), x @ cut[f"{site}[q]"].T)
    spread = cut[f"{site}[v]"].view(2, 8, 32).repeat_interleave(2, 0).reshape(32, 32)
    torch.testing.assert_close(value.reshape(1, 3, 32), x @ spread.T)


def test_what_is_stored_the_other_way_round_is_turned():
    cut, state = matrices(model("gpt2")), model("gpt2").state_dict()
    for name in ("attn.c_proj", "mlp.c_fc", "mlp.c_proj"):
        site = f"transformer.h.0.{name}.weight"
        assert torch.equal(cut[site], state[site].T)
    cut, state = matrices(model("xlnet")), model("xlnet").state_dict()
    for part in "qkvr":  # einsum("ibh,hnd->ibnd")
        site = f"transformer.layer.0.rel_attn.{part}"
        assert torch.equal(cut[site], state[site].reshape(32, 32).T)
    site = "transformer.layer.0.rel_attn.o"  # einsum("ibnd,hnd->ibh")
    assert torch.equal(cut[site], state[site].reshape(32, 32))
    assert not any(d.kind == "convolution" for d in plan(model("xlnet")).matrices if "rel" in d.site
                   and "seg" not in d.site)  # fmt: skip


def test_layers_of_gpt2_are_turned_without_a_word_of_the_family():
    state = model("gpt2").state_dict()
    cut, known = matrices(dict(state)), matrices(model("gpt2"))
    assert cut.keys() == known.keys() | {"lm_head.weight"} - ({"lm_head.weight"} - cut.keys())
    assert all(torch.equal(cut[site], known[site]) for site in known)
    plain = {"h.0.attn.c_attn.weight": torch.randn(96, 32)}  # as nanoGPT stores it
    assert torch.equal(
        matrices(plain)["h.0.attn.c_attn.weight[k]"], plain["h.0.attn.c_attn.weight"][32:64]
    )


def test_gate_and_up_are_those_of_the_model():
    cut, state = matrices(model("phi3")), model("phi3").state_dict()
    site = "model.layers.0.mlp.gate_up_proj.weight"
    gate, up = state[site].chunk(2)
    assert torch.equal(cut[f"{site}[gate]"], gate)
    assert torch.equal(cut[f"{site}[up]"], up)
    cut, state = matrices(model("modernbert")), model("modernbert").state_dict()
    site = "model.layers.0.mlp.Wi.weight"
    assert torch.equal(cut[f"{site}[input]"], state[site][:48])
    assert torch.equal(cut[f"{site}[gate]"], state[site][48:])


@pytest.mark.parametrize(
    ("name", "site", "of"),
    [
        ("gpt oss", "model.layers.0.mlp.experts", lambda W, e: (W[e].T[::2], W[e].T[1::2])),
        ("llama4", "model.layers.0.feed_forward.experts", lambda W, e: W[e].T.chunk(2)),
        ("mixtral", "model.layers.0.mlp.experts", lambda W, e: W[e].chunk(2)),
        ("qwen3 moe", "model.layers.0.mlp.experts", lambda W, e: W[e].chunk(2)),
        ("granite", "model.layers.0.block_sparse_moe.", lambda W, e: W[e].chunk(2)),
    ],
)
def test_experts_are_taken_apart_as_the_model_does(name, site, of):
    state, cut, kind = model(name).state_dict(), matrices(model(name)), kinds(model(name))
    names = [n for n in state if n.startswith(site) and "bias" not in n]
    # An older transformers calls Granite's `input_linear` and `output_linear`.
    stack = next(n for n in names if "gate_up_proj" in n or "input_linear" in n)
    for expert in range(3):
        for part, truth, word in zip(
            ("gate", "up"), of(state[stack], expert), ("expert gate", "expert in"), strict=True
        ):
            assert torch.equal(cut[f"{stack}[{expert}.{part}]"], truth)
            assert kind[f"{stack}[{expert}.{part}]"] == word
        out = stack.replace("gate_up_proj", "down_proj").replace("input_linear", "output_linear")
        turned = name in ("gpt oss", "llama4")
        assert torch.equal(
            cut[f"{out}[{expert}]"], state[out][expert].T if turned else state[out][expert]
        )
        assert kind[f"{out}[{expert}]"] == "expert out"


def test_multihead_attention_is_split_with_or_without_a_single_weight():
    layer = nn.MultiheadAttention(8, 2)
    cut = matrices(layer)
    for part, truth in thirds(layer.in_proj_weight).items():
        assert torch.equal(cut[f"in_proj_weight[{part}]"], truth)
    apart = nn.MultiheadAttention(8, 2, kdim=6, vdim=4)
    assert kinds(apart)["k_proj_weight"] == "attention key"
    assert kinds(nn.TransformerEncoderLayer(8, 2, 16))["linear2.weight"] == "feed-forward out"


def test_queries_that_outnumber_keys_are_not_split_into_thirds_unless_it_is_known():
    fused = {"layers.0.qkv_proj.weight": torch.randn(60, 40)}  # 20, 20, 20 would be wrong
    assert [*matrices(fused)] == [*fused]
    assert "were not split into q, k, v" in words(fused)["layers.0.qkv_proj.weight"]
    stored = open_checkpoint(fused).tensors[0]
    rule = NameRule("qkv", parts=("q", "k", "v"), sizes="heads")
    found = pieces(stored, rule, Heads(4, 1, 10))
    assert [p.shape for p in found] == [(40, 40), (10, 40), (10, 40)]
    assert sum(p.bytes for p in found) == stored.bytes


def test_parts_that_do_not_divide_are_measured_as_one():
    odd = {"gate_up_proj.weight": torch.randn(7, 3), "b.experts.gate_up_proj": torch.randn(2, 7, 3)}
    assert [*matrices(odd)] == [
        "gate_up_proj.weight", "b.experts.gate_up_proj[0]", "b.experts.gate_up_proj[1]"
    ]  # fmt: skip
    assert torch.equal(matrices(odd)["b.experts.gate_up_proj[1]"], odd["b.experts.gate_up_proj"][1])
    assert "7 outputs were not split into gate, up" in words(odd)["gate_up_proj.weight"]


def test_a_kernel_is_seen_as_outputs_by_all_the_rest():
    kernel = torch.randn(5, 3, 2, 2)
    one = whole(open_checkpoint({"c.weight": kernel}).tensors[0], "convolution")
    assert one.shape == (5, 12)
    assert torch.equal(one.cut.read(), kernel.flatten(1))
