"""Every name of a checkpoint is a matrix, cut as its model does, or is left out with a reason."""

import os
from collections import Counter

import pytest
import torch
from torch import nn

from sigmascope.checkpoints import open_checkpoint
from sigmascope.core.guard import Refusal
from sigmascope.models.weights import GATES
from sigmascope.scanning import plan
from sigmascope.scanning.matrices import (
    NAMES,
    UNKNOWN,
    Heads,
    NameRule,
    blocks,
    built_in,
    depth_of,
    distinct,
    heads_of,
    part_of,
    pieces,
    read_rules,
    rule_for,
    whole,
)
from tests.scanning.cut_out import kinds, matrices, words
from tests.scanning.families import FAMILIES, model


def accounted(source, **asked):
    found = plan(source, **asked)
    checkpoint = open_checkpoint(source)
    names = [n for t in checkpoint.tensors for n in t.tensors]
    names += [left.name for left in checkpoint.left_out]
    whole = {n for m in found.matrices for n in m.tensors}
    left = Counter(s.site for s in found.skipped)
    assert set(left.values()) <= {1}
    assert not whole & left.keys()
    assert whole | left.keys() == {*names}
    sites = [m.site for m in found.matrices]
    assert len(set(sites)) == len(sites)
    # nothing is cut out twice, nothing is lost
    for tensor in checkpoint.tensors:
        parts = [m for m in found.matrices if m.tensors == tensor.tensors]
        if parts:
            assert sum(m.rows * m.cols for m in parts) == torch.Size(tensor.shape).numel()
    return found


@pytest.mark.parametrize("name", FAMILIES)
def test_every_tensor_of_a_family_is_accounted_for(name):
    accounted(model(name))
    accounted(model(name), heads=True)


@pytest.mark.parametrize("name", ["gpt2", "mixtral", "gpt oss", "falcon of groups", "clip"])
def test_what_is_on_disk_is_accounted_for_as_well(name, tmp_path):
    model(name).save_pretrained(tmp_path)
    found = accounted(str(tmp_path))
    assert {m.kind for m in found.matrices} >= {m.kind for m in plan(model(name)).matrices}


KINDS = {
    "llama": {"self_attn.q_proj": "attention query", "self_attn.o_proj": "attention output",
              "mlp.gate_proj": "feed-forward gate", "mlp.down_proj": "feed-forward out",
              "embed_tokens": "embedding", "lm_head": "head"},
    "t5 gated": {"DenseReluDense.wo": "feed-forward out", "DenseReluDense.wi_0":
                 "feed-forward gate", "EncDecAttention.o": "attention output",
                 "relative_attention_bias": "position embedding", "shared": "embedding"},
    "switch": {"expert_0.wi": "expert in", "expert_1.wo": "expert out",
               "router.classifier": "router"},
    "rwkv": {"attention.output": "attention output", "feed_forward.key": "feed-forward in",
             "feed_forward.value": "feed-forward out", "attention.key": "attention key"},
    "bert": {"intermediate.dense": "feed-forward in", "attention.output.dense":
             "attention output", "token_type_embeddings": "type embedding",
             "position_embeddings": "position embedding", "seq_relationship": "head"},
    "wav2vec2": {"feed_forward.intermediate_dense": "feed-forward in"},
    "convnext": {"pwconv1": "feed-forward in", "dwconv": "convolution"},
    "albert": {"ffn_output": "feed-forward out"},
    "modernbert": {"attn.Wo": "attention output", "mlp.Wo": "feed-forward out"},
    "qwen2 moe": {"mlp.gate": "router", "shared_expert.down_proj": "feed-forward out"},
    "deepseek v3": {"kv_b_proj": "attention latent", "q_b_proj": "attention query",
                    "shared_experts.up_proj": "feed-forward in"},
    "clip": {"token_embedding": "embedding", "patch_embedding": "convolution"},
    "whisper": {"embed_positions": "position embedding", "encoder_attn.out_proj":
                "attention output"},
}  # fmt: skip


@pytest.mark.parametrize("name", KINDS)
def test_matrices_are_what_they_are_in_the_model(name):
    found = kinds(model(name))
    for ending, kind in KINDS[name].items():
        mine = {site: k for site, k in found.items() if site.endswith(f"{ending}.weight")}
        assert mine, ending
        assert set(mine.values()) == {kind}, mine


def why(name, tensor):
    (left,) = plan({name: tensor}).skipped
    return left.why


def test_what_is_no_matrix_says_why():
    assert why("a.bias", torch.ones(3)).startswith("a vector")
    assert why("embed.cls_token", torch.ones(1, 1, 8)).startswith("a vector")
    assert why("embed.mask_token", torch.ones(1, 8)).startswith("a vector")
    assert why("gamma", torch.ones(8, 1, 1)).startswith("a vector")
    assert why("step", torch.tensor(3.0)).startswith("a vector")
    assert why("a.weight", torch.ones(0, 8)) == "it is empty, of shape [0, 8]"
    assert why("experts.gate_up_proj_bias", torch.ones(3, 8)).startswith("biases or a mask")
    assert why("h.0.attn.bias", torch.ones(1, 1, 9, 9)).startswith("biases or a mask")
    assert why("mixer.A_log", torch.ones(9, 4)).startswith("rates")
    assert kinds({"gate.weight": torch.ones(1, 8)})["gate.weight"] == "linear"


def test_tied_weights_are_measured_once_and_it_is_said():
    W = torch.randn(9, 4)
    found = plan({"embed.weight": W, "lm_head.weight": W, "copy.weight": W.clone()})
    assert [m.site for m in found.matrices] == ["embed.weight", "copy.weight"]
    assert found.skipped[0].why == "the same numbers in the file as embed.weight: tied"


def test_a_tensor_that_is_left_out_does_not_tie_another():
    W = torch.randn(9, 4)
    found = plan({"embed.weight": W, "lm_head.weight": W}, skip=["embed*"])
    assert [m.site for m in found.matrices] == ["lm_head.weight"]


def test_only_some_are_measured_and_of_the_rest_it_is_said():
    state = {f"{n}.weight": torch.ones(4, 4) for n in "abc"}
    found = plan(state, only=["a*", "b*"], skip=["b*"])
    assert [m.site for m in found.matrices] == ["a.weight"]
    assert [s.why for s in found.skipped] == [
        "left out as asked (--skip)",
        "not asked for (--only)",
    ]


def test_a_name_of_nothing_is_refused():
    with pytest.raises(Refusal, match=r"none of its 1: for example a\.weight"):
        plan({"a.weight": torch.ones(4, 4)}, only=["*.weight", "*attn*"])
    with pytest.raises(Refusal, match="it holds none"):
        plan({}, only=["a"])


def test_an_adapter_is_asked_for_like_the_rest(tmp_path):
    from safetensors.torch import save_file

    stem = "base_model.model.layers.0.q_proj"
    save_file({f"{stem}.lora_A.weight": torch.randn(2, 8), f"{stem}.lora_B.weight":
               torch.randn(8, 2)}, tmp_path / "adapter_model.safetensors")  # fmt: skip
    (tmp_path / "adapter_config.json").write_text('{"peft_type": "LORA", "r": 2, "lora_alpha": 4}')
    (matrix,) = plan(str(tmp_path)).matrices
    found = plan(str(tmp_path), skip=["*q_proj*"])
    assert not found.matrices
    assert {s.site for s in found.skipped} == {*matrix.tensors}


def test_a_rule_of_a_user_comes_first():
    state = {"a.odd.weight": torch.arange(12.0).reshape(4, 3), "b.c.weight": torch.ones(3, 3)}
    mine = (NameRule(r"odd", parts=("x", "y"), kinds=("left", "right"), layout="turns"),
            NameRule(r"^b", left_out="a table"))  # fmt: skip
    cut = matrices(state, rules=mine)
    assert torch.equal(cut["a.odd.weight[y]"], state["a.odd.weight"][1::2])
    assert plan(state, rules=mine).skipped[0].why == "a table"


def test_what_is_normalised_before_use_is_said_to_be():
    layer = torch.nn.utils.parametrizations.weight_norm(torch.nn.Linear(4, 3))
    (said,) = words(layer).values()
    assert "normalised before use" in said


def test_numbers_of_eight_bits_without_scales_are_said_to_be():
    codes = torch.ones(4, 3).to(torch.float8_e4m3fn)
    (said,) = words({"a.weight": codes, "b.weight": torch.ones(4, 3)}).values()
    assert "without scales" in said
    assert not words({"a.weight": codes, "a.weight_scale": torch.tensor(0.5)})


def test_a_kernel_of_one_pixel_is_what_its_name_says():
    state = {"attn.q.weight": torch.ones(4, 4, 1, 1), "conv.weight": torch.ones(4, 4, 3, 3)}
    assert kinds(state) == {"attn.q.weight": "attention query", "conv.weight": "convolution"}
    assert kinds({"pos_embed": torch.ones(1, 9, 4)}) == {"pos_embed": "position embedding"}
    assert kinds({"mlp.experts.odd": torch.ones(2, 4, 3)}) == dict.fromkeys(
        ("mlp.experts.odd[0]", "mlp.experts.odd[1]"), "expert"
    )


def test_depth_is_the_number_of_the_outermost_block():
    names = ("model.layers.12.mlp.experts.3.w1.weight", "blk.4.attn_q.weight", "lm_head.weight")
    assert [depth_of(name) for name in names] == [12, 4, -1]


def test_blocks_and_experts_have_names_of_their_own():
    names = ("l.0.experts.1.w", "l.0.experts.gate[1.up]", "l.0.experts.down[1]", "l.1.w", "w")
    assert [*blocks(names)] == ["l.0 1", "l.0 1", "l.0 1", "l.1", ""]
    assert distinct(["a", "a#2", "a", "a"]) == ["a", "a#2", "a#3", "a#4"]


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


def test_of_parts_that_follow_one_another_each_is_read_by_itself():
    """And of experts never those rows, for what comes first in the tensor counts them."""
    (stored,) = open_checkpoint({"qkv.weight": torch.randn(12, 4)}).tensors
    found = pieces(stored, NameRule("qkv", parts=("q", "k", "v")))
    assert [(p.cut.start, p.cut.stop) for p in found] == [(0, 4), (4, 8), (8, 12)]
    stack = torch.randn(6, 4, 3)
    (stored,) = open_checkpoint({"experts": stack}).tensors
    found = pieces(stored, NameRule("experts", parts=("gate", "up"), experts=True, dims=3))
    for expert, (gate, up) in enumerate(zip(found[::2], found[1::2], strict=True)):
        assert torch.equal(torch.cat([gate.cut.read(), up.cut.read()]), stack[expert])


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


def heads_of_rows(W, count):
    return W.view(count, -1, W.shape[1])


def heads_of_columns(W, count):
    return W.view(W.shape[0], count, -1).transpose(0, 1)


PLAIN = {  # model: layer, and of q, k, v, o the name, whether it is a column's, and how many heads
    "llama": ("model.layers.1.self_attn", "q_proj k_proj v_proj o_proj", (4, 2, 2, 4)),
    "qwen3 moe": ("model.layers.1.self_attn", "q_proj k_proj v_proj o_proj", (4, 2, 2, 4)),
    "bert": ("bert.encoder.layer.1.attention", "self.query self.key self.value output.dense",
             (4, 4, 4, 4)),
    "t5": ("decoder.block.1.layer.1.EncDecAttention", "q k v o", (4, 4, 4, 4)),
    "whisper": ("decoder.layers.1.encoder_attn", "q_proj k_proj v_proj out_proj", (4, 4, 4, 4)),
    "opt": ("model.decoder.layers.1.self_attn", "q_proj k_proj v_proj out_proj", (4, 4, 4, 4)),
    "clip": ("text_model.encoder.layers.0.self_attn", "q_proj k_proj v_proj out_proj",
             (2, 2, 2, 2)),
    "siglip": ("vision_model.encoder.layers.0.self_attn", "q_proj k_proj v_proj out_proj",
               (4, 4, 4, 4)),
}  # fmt: skip


@pytest.mark.parametrize("name", PLAIN)
def test_heads_of_separate_weights(name):
    layer, parts, counts = PLAIN[name]
    state, cut = model(name).state_dict(), matrices(model(name), heads=True)
    for part, count, take in zip(
        parts.split(), counts, (*[heads_of_rows] * 3, heads_of_columns), strict=True
    ):
        site = f"{layer}.{part}.weight"
        for i, truth in enumerate(take(state[site], count)):
            assert torch.equal(cut[f"{site}[head {i}]"], truth), (part, i)
        assert f"{site}[head {count}]" not in cut
        assert site not in cut


GROUPS = {
    "gpt2": ("transformer.h.1.attn.c_attn.weight", 4),
    "bigcode": ("transformer.h.1.attn.c_attn.weight", 1),
    "bigcode of many": ("transformer.h.1.attn.c_attn.weight", 4),
    "phi3": ("model.layers.1.self_attn.qkv_proj.weight", 2),
    "neox": ("gpt_neox.layers.1.attention.query_key_value.weight", 4),
    "bloom": ("transformer.h.1.self_attention.query_key_value.weight", 4),
    "falcon": ("transformer.h.1.self_attention.query_key_value.weight", 1),
    "falcon of groups": ("transformer.h.1.self_attention.query_key_value.weight", 2),
    "falcon of many": ("transformer.h.1.self_attention.query_key_value.weight", 4),
    "codegen": ("transformer.h.1.attn.qkv_proj.weight", 8),
    "deberta": ("deberta.encoder.layer.1.attention.self.in_proj.weight", 4),
}


@pytest.mark.parametrize("name", GROUPS)
def test_heads_of_fused_weights_are_stretches_of_their_parts(name):
    site, groups = GROUPS[name]
    parts, heads = matrices(model(name)), matrices(model(name), heads=True)
    queries = 8 if name == "codegen" else 4
    for part, count in (("q", queries), ("k", groups), ("v", groups)):
        found = [heads[f"{site}[{part} head {i}]"] for i in range(count)]
        assert torch.equal(torch.cat(found), parts[f"{site}[{part}]"])
        assert len({f.shape for f in found}) == 1
        assert f"{site}[{part} head {count}]" not in heads


def test_what_mixes_heads_of_a_turned_layer_is_split_by_inputs():
    state, cut = model("gpt2").state_dict(), matrices(model("gpt2"), heads=True)
    site = "transformer.h.0.attn.c_proj.weight"
    for i in range(4):
        assert torch.equal(cut[f"{site}[head {i}]"], state[site].T[:, 8 * i : 8 * i + 8])


def test_latent_attention_has_heads_of_queries_by_their_number_and_not_by_a_size():
    state, cut = model("deepseek v3").state_dict(), matrices(model("deepseek v3"), heads=True)
    site = "model.layers.0.self_attn.q_b_proj.weight"
    assert torch.equal(cut[f"{site}[head 3]"], state[site].view(4, 16, 16)[3])
    out = "model.layers.0.self_attn.o_proj.weight"
    assert torch.equal(cut[f"{out}[head 1]"], state[out].view(32, 4, 12)[:, 1])
    assert "model.layers.0.self_attn.kv_b_proj.weight" in cut


def test_heads_that_are_not_known_are_said_and_not_guessed():
    plain = {"a.q_proj.weight": torch.randn(8, 8), "a.up_proj.weight": torch.randn(8, 8)}
    assert [*matrices(plain, heads=True)] == [*plain]
    assert "not split into heads" in words(plain, heads=True)["a.q_proj.weight"]
    assert not words(plain)
    assert words(model("swin"), heads=True)  # as many as its stage says


def test_the_names_are_those_of_a_model():
    assert {*map("".join, NAMES.values())} == {"", *GATES.values()}


@pytest.mark.parametrize(
    ("layer", "gates"),
    [
        (nn.LSTM(6, 5, 2, bidirectional=True), "ifgo"),
        (nn.GRU(6, 5, 2), "rzn"),
        (nn.LSTM(6, 8, proj_size=4), "ifgo"),
        (nn.LSTMCell(6, 5), "ifgo"),
        (nn.GRUCell(15, 5), "rzn"),
    ],
)
def test_every_gate_is_a_matrix(layer, gates):
    cut = matrices(nn.ModuleDict({"rnn": layer}))
    for name, weight in layer.named_parameters():
        if not name.startswith(("weight_ih", "weight_hh")):
            continue
        for gate, truth in zip(gates, weight.chunk(len(gates)), strict=True):
            assert torch.equal(cut[f"rnn.{name}[{gate}]"], truth)
        assert f"rnn.{name}" not in cut


def test_a_plain_recurrent_layer_has_one_matrix():
    assert [*matrices(nn.RNN(3, 4))] == ["weight_ih_l0", "weight_hh_l0"]


def test_gates_that_cannot_be_told_are_measured_whole_and_it_is_said():
    alone = {"weight_ih_l0": torch.randn(12, 3)}
    assert [*matrices(alone)] == ["weight_ih_l0"]
    assert "state is not beside it" in words(alone)["weight_ih_l0"]
    odd = {"weight_ih_l0": torch.randn(10, 3), "weight_hh_l0": torch.randn(10, 4)}
    assert "10 outputs are no gates of 4 units" in words(odd)["weight_ih_l0"]
    two = {"weight_ih_l0": torch.randn(8, 3), "weight_hh_l0": torch.randn(8, 4)}
    assert "no gates of 4" in words(two)["weight_hh_l0"]


LLAMA = {"num_attention_heads": 32, "num_key_value_heads": 8, "hidden_size": 4096}


@pytest.mark.parametrize(
    ("config", "heads"),
    [
        (LLAMA, Heads(32, 8, 128)),
        ({**LLAMA, "head_dim": 256}, Heads(32, 8, 256)),
        ({"n_head": 12, "n_embd": 768}, Heads(12, 0, 64)),
        ({"n_head": 71, "hidden_size": 4544, "multi_query": True}, Heads(71, 1, 64)),
        ({"n_head": 4, "num_kv_heads": 2, "multi_query": False, "d_model": 8}, Heads(4, 4, 2)),
        ({"attn_config": {"kv_n_heads": 8}, "n_heads": 48, "d_model": 6144}, Heads(48, 8, 128)),
        (
            {
                "general.architecture": "phi3",
                "phi3.attention.head_count": 40,
                "phi3.attention.head_count_kv": 10,
                "phi3.embedding_length": 5120,
            },
            Heads(40, 10, 128),
        ),
        ({}, UNKNOWN),
        ({"num_attention_heads": "12", "hidden_size": True}, UNKNOWN),
        ({"num_attention_heads": -4, "hidden_size": 2**70}, UNKNOWN),
        ({"num_heads": [1, 2], "embed_dim": 8}, UNKNOWN),
    ],
)
def test_what_a_configuration_says(config, heads):
    assert heads_of("layers.0.self_attn.q_proj.weight", config) == heads


def test_the_part_that_sees_has_heads_of_its_own():
    both = {"text_config": LLAMA, "vision_config": {"num_heads": 16, "embed_dim": 1280}}
    assert heads_of("visual.blocks.0.attn.qkv.weight", both) == Heads(16, 0, 80)
    assert heads_of("model.vision_tower.layers.0.q.weight", both).queries == 16
    assert heads_of("language_model.layers.0.q_proj.weight", both).queries == 32
    assert heads_of("model.layers.0.q_proj.weight", both).queries == 32
    assert part_of("a.b", {"vision_config": "odd"}) == {"vision_config": "odd"}


def test_an_encoder_may_have_other_heads_than_a_decoder():
    both = {"encoder_attention_heads": 2, "decoder_attention_heads": 8, "d_model": 16}
    assert heads_of("model.encoder.layers.0.self_attn.q_proj.weight", both) == Heads(2, 0, 8)
    assert heads_of("model.decoder.layers.0.self_attn.q_proj.weight", both) == Heads(8, 0, 2)


def test_groups_are_what_the_outputs_leave_for_keys():
    assert Heads(32, 0, 128).groups_of(48 * 128, 4096) == 8
    assert Heads(32, 0, 128).groups_of(3 * 4096, 4096) == 32
    assert Heads(32, 0, 128).groups_of(4096, 4096) == 0  # no keys at all
    assert Heads(32, 0, 128).groups_of(38 * 128, 4096) == 0  # 3 do not divide 32
    assert UNKNOWN.groups_of(4096, 4096) == 0
    assert Heads(32, 8, 128).fit(48 * 128)
    assert not Heads(32, 8, 128).fit(96 * 128)
    assert not UNKNOWN.fit(0)


def test_heads_within_a_matrix():
    grouped = Heads(32, 8, 128)
    assert grouped.among("attention query", 32 * 192) == 32  # of another size than was said
    assert grouped.among("attention key", 1024) == 8
    assert grouped.among("attention value", 1001) == 0
    assert Heads(32, 0, 128).among("attention key", 256) == 2
    assert UNKNOWN.among("attention key", 256) == 0


def test_the_table_is_read_once_and_every_rule_of_it_is_sound():
    assert built_in() is built_in()
    assert len(built_in()) > 40
    for rule in built_in():
        assert len(rule.kinds) in (0, len(rule.parts))


def test_the_first_rule_that_fits_is_taken():
    rules = (
        NameRule("q$", families=("a",)),
        NameRule("q$", dims=3),
        NameRule("q$", experts=True),
        NameRule("q"),
    )
    assert rule_for("x.q", ("b", "a"), 2, rules) is rules[0]
    assert rule_for("x.q", ("b",), 3, rules) is rules[1]
    assert rule_for("x.q", ("b",), 2, rules) is rules[3]
    assert rule_for("x.v", (), 2, rules) is None


def test_a_rule_without_parts_speaks_of_kernels_too_and_one_that_leaves_out_of_all():
    assert NameRule("q").fits("q", (), 4)
    assert not NameRule("q", parts=("a", "b")).fits("q", (), 4)
    assert NameRule("q", left_out="a mask").fits("q", (), 1)


MINE = """
[[rule]]
name = 'fused\\.weight$'
parts = ["a", "b"]
kinds = ["linear", "head"]
families = ["mine"]
repeats = 2
"""


def test_a_file_of_rules(tmp_path):
    (tmp_path / "mine.toml").write_text(MINE)
    (rule,) = read_rules(tmp_path / "mine.toml")
    assert rule == NameRule(
        r"fused\.weight$", parts=("a", "b"), kinds=("linear", "head"), families=("mine",), repeats=2
    )


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("[[rule]\n", "cannot be read"),
        ("\xff", "cannot be read"),
        ("", r"must hold tables named \[\[rule\]\], got nothing"),
        ("rule = 3", r"must hold tables named \[\[rule\]\]"),
        ("rule = [3]", r"must hold tables named \[\[rule\]\]"),
        ('[[rule]]\nkind = "x"', "got no name"),
        ('[[rule]]\nname = "x"\nkinds_ = []', "got kinds_"),
        ("[[rule]]\nname = 'x('", "must be a regular expression"),
        ('[[rule]]\nname = "x"\nturned = "yes"', "`turned` .* must be of type true or false"),
        ('[[rule]]\nname = "x"\nfamilies = "gpt2"', "`families` .* must be of type list"),
        ('[[rule]]\nname = "x"\nkind = 3', "`kind` .* must be of type text"),
        ('[[rule]]\nname = "x"\nrepeats = true', "`repeats` .* must be of type number"),
        ('[[rule]]\nname = "x"\nrepeats = 0', "must repeat once or more"),
        ('[[rule]]\nname = "x"\nlayout = "odd"', "`layout` .* must be one of blocks"),
        ('[[rule]]\nname = "x"\nsizes = "odd"', "`sizes` .* must be one of equal"),
        ('[[rule]]\nname = "x"\nparts = ["a"]\nkinds = ["b", "c"]', "a kind for each of its 1"),
    ],
)
def test_rules_that_cannot_be_meant_are_refused(tmp_path, text, says, as_users_see_it):
    (tmp_path / "odd.toml").write_bytes(text.encode("latin-1"))
    with pytest.raises(Refusal, match=says):
        read_rules(tmp_path / "odd.toml")


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda path: None, "There is no file"),
        (os.mkfifo, "device, pipe or socket"),
        (os.mkdir, "a folder"),
        (lambda path: path.symlink_to("/dev/zero"), "device, pipe or socket"),
        (lambda path: path.write_bytes(b"#" * (1 << 21)), "at most 1 MiB"),
        (lambda path: path.write_text("a = " + "[" * 100_000), "cannot be read"),
        (lambda path: path.write_bytes(b"\xff\xfe"), "cannot be read"),
    ],
)
def test_what_is_no_file_of_rules_is_refused_at_once(make, says, tmp_path):
    make(tmp_path / "x.toml")
    with pytest.raises(Refusal, match=says):
        read_rules(tmp_path / "x.toml")
