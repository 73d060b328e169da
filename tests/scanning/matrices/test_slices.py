"""Heads are those of the model: its rows of queries, keys and values, its columns of outputs."""

import pytest
import torch

from tests.scanning.cut_out import matrices, words
from tests.scanning.families import model


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


FUSED = {
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


@pytest.mark.parametrize("name", FUSED)
def test_heads_of_fused_weights_are_stretches_of_their_parts(name):
    site, groups = FUSED[name]
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
