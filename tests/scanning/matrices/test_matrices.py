"""Every name of a checkpoint is a matrix or is left out with a reason, and exactly once."""

from collections import Counter

import pytest
import torch

from sigmascope.gate import Refusal
from sigmascope.scanning import NameRule, plan
from sigmascope.scanning.matrices import blocks, depth_of, distinct
from sigmascope.sources.checkpoints import open_checkpoint
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
