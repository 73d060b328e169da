import pytest

from sigmascope.scanning.matrices import UNKNOWN, Heads, heads_of, part_of

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
