"""Small models of many families, each built once, as transformers builds them."""

from functools import cache

import torch

SMALL = {
    "vocab_size": 50, "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 2,
    "num_attention_heads": 4,
}  # fmt: skip
GROUPED = {**SMALL, "num_key_value_heads": 2}
EXPERTS = {**GROUPED, "num_experts_per_tok": 2}
LATENT = {
    **SMALL, "num_key_value_heads": 4, "moe_intermediate_size": 24, "n_routed_experts": 4,
    "n_shared_experts": 1, "q_lora_rank": 16, "kv_lora_rank": 16, "qk_rope_head_dim": 8,
    "qk_nope_head_dim": 8, "v_head_dim": 12, "num_experts_per_tok": 2, "first_k_dense_replace": 1,
    "n_group": 1, "topk_group": 1,
}  # fmt: skip
OLD = {"vocab_size": 50, "n_positions": 20, "n_embd": 32, "n_layer": 2, "n_head": 4}
FALCON = {"vocab_size": 50, "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4}
SEES = {**SMALL, "image_size": 16, "patch_size": 8}
SEES.pop("vocab_size")
PAIR = {
    "vocab_size": 50, "d_model": 32, "encoder_layers": 2, "decoder_layers": 2,
    "encoder_ffn_dim": 48, "decoder_ffn_dim": 48, "encoder_attention_heads": 4,
    "decoder_attention_heads": 4,
}  # fmt: skip
T5 = {
    "vocab_size": 50, "d_model": 32, "d_kv": 8, "d_ff": 48, "num_layers": 2, "num_heads": 4,
    "decoder_start_token_id": 0,
}  # fmt: skip
CAUSAL = "AutoModelForCausalLM"
FAMILIES = {  # name: configuration, what is in it, class of the model
    "gpt2": ("GPT2Config", OLD, CAUSAL),
    "bigcode": ("GPTBigCodeConfig", OLD, CAUSAL),
    "bigcode of many": ("GPTBigCodeConfig", {**OLD, "multi_query": False}, CAUSAL),
    "llama": ("LlamaConfig", GROUPED, CAUSAL),
    "mistral": ("MistralConfig", GROUPED, CAUSAL),
    "mixtral": ("MixtralConfig", {**GROUPED, "num_local_experts": 3}, CAUSAL),
    "qwen2 moe": ("Qwen2MoeConfig", {**EXPERTS, "num_experts": 3}, CAUSAL),
    "qwen3 moe": ("Qwen3MoeConfig", {**EXPERTS, "num_experts": 3, "head_dim": 16}, CAUSAL),
    "deepseek v2": ("DeepseekV2Config", LATENT, CAUSAL),
    "deepseek v3": ("DeepseekV3Config", LATENT, CAUSAL),
    "phi3": ("Phi3Config", {**GROUPED, "pad_token_id": 0}, CAUSAL),
    "neox": ("GPTNeoXConfig", SMALL, CAUSAL),
    "bloom": ("BloomConfig", {"vocab_size": 50, "hidden_size": 32, "n_layer": 2, "n_head": 4},
              CAUSAL),
    "falcon": ("FalconConfig", FALCON, CAUSAL),
    "falcon of many": ("FalconConfig", {**FALCON, "multi_query": False}, CAUSAL),
    "falcon of groups": (
        "FalconConfig", {**FALCON, "num_kv_heads": 2, "new_decoder_architecture": True}, CAUSAL),
    "mpt": ("MptConfig", {"vocab_size": 50, "d_model": 32, "n_layers": 2, "n_heads": 4}, CAUSAL),
    "codegen": ("CodeGenConfig", {**OLD, "n_embd": 64, "n_head": 8, "rotary_dim": 4}, CAUSAL),
    "opt": ("OPTConfig", {**FALCON, "ffn_dim": 48, "word_embed_proj_dim": 16}, CAUSAL),
    "gpt oss": ("GptOssConfig", {**GROUPED, "num_local_experts": 3, "head_dim": 16}, CAUSAL),
    "llama4": ("Llama4TextConfig", {**GROUPED, "num_local_experts": 3, "head_dim": 8,
               "pad_token_id": 0}, "Llama4ForCausalLM"),
    "granite": ("GraniteMoeConfig", {**EXPERTS, "num_local_experts": 3}, CAUSAL),
    "mamba": ("MambaConfig", {"vocab_size": 50, "hidden_size": 32, "state_size": 8,
              "num_hidden_layers": 2}, CAUSAL),
    "rwkv": ("RwkvConfig", {"vocab_size": 50, "hidden_size": 32, "num_hidden_layers": 2,
             "attention_hidden_size": 32}, CAUSAL),
    "xlnet": ("XLNetConfig", {"vocab_size": 50, "d_model": 32, "n_layer": 2, "n_head": 4,
              "d_inner": 48}, "XLNetLMHeadModel"),
    "t5": ("T5Config", T5, "T5ForConditionalGeneration"),
    "t5 gated": ("T5Config", {**T5, "feed_forward_proj": "gated-gelu"},
                 "T5ForConditionalGeneration"),
    "switch": ("SwitchTransformersConfig", {**T5, "num_experts": 3},
               "SwitchTransformersForConditionalGeneration"),
    "bart": ("BartConfig", PAIR, "BartForConditionalGeneration"),
    "whisper": ("WhisperConfig", {**PAIR, "num_mel_bins": 8, "pad_token_id": 0,
                "max_source_positions": 20, "max_target_positions": 20}, "WhisperModel"),
    "bert": ("BertConfig", SMALL, "BertForPreTraining"),
    "roberta": ("RobertaConfig", SMALL, "RobertaForMaskedLM"),
    "distilbert": ("DistilBertConfig", {"vocab_size": 50, "dim": 32, "n_layers": 2, "n_heads": 4,
                   "hidden_dim": 48}, "DistilBertForMaskedLM"),
    "albert": ("AlbertConfig", {**SMALL, "embedding_size": 16}, "AlbertForMaskedLM"),
    "deberta": ("DebertaConfig", {**SMALL, "relative_attention": True,
                "pos_att_type": ["c2p", "p2c"]}, "DebertaForMaskedLM"),
    "modernbert": ("ModernBertConfig", {**SMALL, "pad_token_id": 0}, "ModernBertForMaskedLM"),
    "vit": ("ViTConfig", SEES, "ViTForImageClassification"),
    "clip": ("CLIPConfig", {"text_config": {**SMALL, "num_attention_heads": 2},
             "vision_config": SEES}, "CLIPModel"),
    "siglip": ("SiglipConfig", {"text_config": SMALL, "vision_config": SEES}, "SiglipModel"),
    "wav2vec2": ("Wav2Vec2Config", {**SMALL, "conv_dim": (16, 16), "conv_stride": (2, 2),
                 "conv_kernel": (3, 3), "num_conv_pos_embeddings": 16,
                 "num_conv_pos_embedding_groups": 4}, "Wav2Vec2ForCTC"),
    "convnext": ("ConvNextConfig", {"hidden_sizes": [8, 16, 16, 16], "depths": [1, 1, 1, 1]},
                 "ConvNextModel"),
    "resnet": ("ResNetConfig", {"embedding_size": 8, "hidden_sizes": [8, 16], "depths": [1, 1]},
               "ResNetModel"),
    "swin": ("SwinConfig", {"image_size": 32, "patch_size": 4, "embed_dim": 8, "depths": [1, 1],
             "num_heads": [1, 2], "window_size": 4}, "SwinModel"),
}  # fmt: skip


@cache
def model(name):
    """One of them, of weights that are all different."""
    import transformers

    kind, settings, built = FAMILIES[name]
    config = getattr(transformers, kind)(**settings)
    made = getattr(transformers, built)
    with torch.random.fork_rng():
        torch.manual_seed(0)
        found = made.from_config(config) if built == CAUSAL else made(config)
        with torch.no_grad():
            for parameter in found.parameters():
                parameter.copy_(torch.randn(parameter.shape))
    return found.eval()
