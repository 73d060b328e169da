"""Public architectures in small sizes, from their libraries' own code and initialisation.

    pip install timm torchvision transformers diffusers monai torch_geometric pykan

A library that is not installed is named, and its architectures are left out.
"""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from importlib.util import find_spec
from typing import Any

import torch
from torch import Tensor, nn

from benchmarks import _tasks as tasks
from benchmarks._tasks import Task

V = tasks.LETTERS


@dataclass(frozen=True, slots=True)
class Architecture:
    """One public architecture and a task for it.

    Attributes:
        name: Its name.
        library: Whose code it is; torch for that of this file.
        make: Builds it, with the library's own draws.
        task: What it learns.
    """

    name: str
    library: str
    make: Callable[[], nn.Module]
    task: Callable[[], Task]

    @property
    def installed(self) -> bool:
        """Whether its library is here."""
        return find_spec(self.library) is not None


def _timm(name: str, size: int = 32, **options: Any) -> Architecture:
    def make() -> nn.Module:
        import timm

        return timm.create_model(name, num_classes=10, **options)

    return Architecture(name, "timm", make, partial(tasks.images, size=size))


def _convolutional(kind: str) -> nn.Module:
    from timm.models import convnext, densenet, efficientnet, regnet

    if kind.startswith("ConvNeXt"):
        sizes = {"depths": (2, 2, 4, 2), "dims": (16, 32, 48, 64)}
        return convnext.ConvNeXt(num_classes=10, conv_mlp="first" in kind, **sizes)
    if kind == "DenseNet":
        return densenet.DenseNet(num_classes=10, growth_rate=12, block_config=(4, 4, 4, 4))
    if kind == "RegNet":
        config = regnet.RegNetCfg(depth=8, w0=16, wa=12.0, wm=2.0, group_size=8)
        return regnet.RegNet(config, num_classes=10)
    make = efficientnet._gen_efficientnet  # the library's own door takes no width
    return make("efficientnet_b0", channel_multiplier=0.5, num_classes=10)


def _mixer() -> nn.Module:
    from timm.models.mlp_mixer import MlpMixer

    return MlpMixer(num_classes=10, img_size=32, patch_size=4, num_blocks=6, embed_dim=96)


def _transformer(name: str, model: str, config: str, task: Any, **options: Any) -> Architecture:
    def make() -> nn.Module:
        import transformers

        return getattr(transformers, model)(getattr(transformers, config)(**options))

    return Architecture(name, "transformers", make, task)


def _clip() -> nn.Module:
    from transformers import CLIPConfig, CLIPModel

    sizes = {"hidden_size": 64, "intermediate_size": 128, "num_hidden_layers": 3}
    both = {**sizes, "num_attention_heads": 4}
    text = {**both, "vocab_size": V, "max_position_embeddings": 16, "eos_token_id": V - 1}
    vision = {**both, "image_size": 32, "patch_size": 8}
    return CLIPModel(CLIPConfig(text_config=text, vision_config=vision, projection_dim=32))


def _diffusers() -> nn.Module:
    from diffusers.models.unets.unet_2d import UNet2DModel

    return UNet2DModel(
        sample_size=32,
        block_out_channels=(32, 64, 64),
        down_block_types=("DownBlock2D", "AttnDownBlock2D", "DownBlock2D"),
        up_block_types=("UpBlock2D", "AttnUpBlock2D", "UpBlock2D"),
        layers_per_block=1,
        norm_num_groups=8,
    )


def _monai(kind: str) -> nn.Module:
    from monai.networks import nets

    if kind == "SegResNet":
        return nets.SegResNet(spatial_dims=2, init_filters=8, in_channels=3, out_channels=2)
    if kind == "UNet":
        return nets.UNet(2, 3, 2, channels=(16, 32, 64, 128), strides=(2, 2, 2), num_res_units=2)
    return nets.AttentionUnet(2, 3, 2, channels=(16, 32, 64), strides=(2, 2))


class Graphs(nn.Module):
    """Dense graph convolutions over the grid of pixels, averaged over the nodes."""

    def __init__(self, kind: str, width: int = 48) -> None:
        from torch_geometric import nn as pyg

        super().__init__()
        make = {
            "gcn": lambda a, b: pyg.DenseGCNConv(a, b),
            "gat": lambda a, b: pyg.DenseGATConv(a, b // 4, heads=4),
            "gin": lambda a, b: pyg.DenseGINConv(
                nn.Sequential(nn.Linear(a, b), nn.ReLU(), nn.Linear(b, b))
            ),
            "sage": lambda a, b: pyg.DenseSAGEConv(a, b),
        }[kind]
        self.layers = nn.ModuleList([make(3, width), make(width, width), make(width, width)])
        self.readout = nn.Linear(width * 64 if kind != "gin" else width, 10)
        self.flat = kind != "gin"
        place = torch.cartesian_prod(torch.arange(8), torch.arange(8)).float()
        self.register_buffer("near", (torch.cdist(place, place, p=1) == 1).float())

    def forward(self, nodes: Tensor) -> Tensor:
        """Scores of graphs."""
        near = self.get_buffer("near").expand(len(nodes), -1, -1)
        for layer in self.layers:
            nodes = layer(nodes, near).relu()
        return self.readout(nodes.flatten(1) if self.flat else nodes.mean(1))


class Recurrent(nn.Module):
    """The last state of a recurrent network, and a linear layer."""

    def __init__(self, kind: type[nn.RNNBase], *, letters: bool, layers: int = 2) -> None:
        super().__init__()
        self.read = nn.Embedding(V, 32) if letters else nn.Identity()
        self.cell = kind(32 if letters else 8, 64, num_layers=layers, batch_first=True)
        self.readout = nn.Linear(64, 4 if letters else 10)

    def forward(self, x: Tensor) -> Tensor:
        """Scores of sequences."""
        return self.readout(self.cell(self.read(x))[0][:, -1])


class Sine(nn.Module):
    """A layer of a SIREN (Sitzmann et al. 2020, Sec. 3.2)."""

    def __init__(self, inputs: int, outputs: int, *, first: bool) -> None:
        super().__init__()
        self.linear = nn.Linear(inputs, outputs)
        bound = 1 / inputs if first else (6 / inputs) ** 0.5 / 30
        nn.init.uniform_(self.linear.weight, -bound, bound)

    def forward(self, x: Tensor) -> Tensor:
        """`sin(30 (W x + b))`."""
        return torch.sin(30 * self.linear(x))


def _siren() -> nn.Module:
    last = nn.Linear(64, 3)
    nn.init.uniform_(last.weight, -((6 / 64) ** 0.5) / 30, (6 / 64) ** 0.5 / 30)
    hidden = [Sine(64, 64, first=False) for _ in range(3)]
    return nn.Sequential(Sine(2, 64, first=True), *hidden, last)


def _torchvision(name: str) -> nn.Module:
    from torchvision import models

    return models.get_model(name, num_classes=10)


def _kan() -> nn.Module:
    from kan import KAN

    return KAN(width=[2, 5, 5, 1], grid=5, k=3, seed=0, auto_save=False)


def _autoencoder() -> nn.Module:
    down = [nn.Conv2d(3, 16, 3, 2, 1), nn.ReLU(), nn.Conv2d(16, 32, 3, 2, 1), nn.ReLU()]
    up = [nn.ConvTranspose2d(32, 16, 2, 2), nn.ReLU(), nn.ConvTranspose2d(16, 3, 2, 2)]
    return nn.Sequential(*down, *up)


LM = {"vocab_size": V, "hidden_size": 64, "num_hidden_layers": 4, "num_attention_heads": 4}
WIDE = {**LM, "intermediate_size": 128, "max_position_embeddings": 64}
SHORT = {"max_position_embeddings": 64}
ALL = (
    _timm("resnet18", 64, channels=(16, 32, 64, 128), stem_width=16),
    _timm("resnet26d", 64, channels=(16, 24, 32, 48), stem_width=8),
    *(Architecture(k, "timm", partial(_convolutional, k), partial(tasks.images, size=64))
      for k in ("ConvNeXt", "ConvNeXt, channels first", "DenseNet", "RegNet", "EfficientNet-B0")),
    _timm("mobilenetv3_small_050", 64),
    _timm("vit_tiny_patch16_224", img_size=32, patch_size=4, embed_dim=96, depth=6),
    _timm("deit_tiny_distilled_patch16_224", img_size=32, patch_size=4, embed_dim=96, depth=6),
    _timm("swin_tiny_patch4_window7_224", img_size=32, patch_size=2, window_size=4, embed_dim=32,
          depths=(2, 2, 2), num_heads=(2, 4, 8)),
    Architecture("mixer", "timm", _mixer, tasks.images),
    _transformer("GPT-2", "GPT2LMHeadModel", "GPT2Config", tasks.next_letters, vocab_size=V,
                 n_positions=64, n_embd=64, n_layer=4, n_head=4, bos_token_id=1, eos_token_id=2),
    _transformer("LLaMA", "LlamaForCausalLM", "LlamaConfig", tasks.next_letters, **WIDE),
    _transformer("Mistral", "MistralForCausalLM", "MistralConfig", tasks.next_letters,
                 **WIDE, num_key_value_heads=2, sliding_window=16),
    _transformer("GPT-NeoX", "GPTNeoXForCausalLM", "GPTNeoXConfig", tasks.next_letters, **WIDE),
    _transformer("Mamba", "MambaForCausalLM", "MambaConfig", tasks.next_letters, vocab_size=V,
                 hidden_size=64, num_hidden_layers=4, state_size=8),
    _transformer("BERT", "BertForSequenceClassification", "BertConfig", tasks.which_text,
                 **WIDE, num_labels=4),
    _transformer("BERT masked", "BertForMaskedLM", "BertConfig", tasks.masked_letters, **WIDE),
    _transformer("DistilBERT", "DistilBertForSequenceClassification", "DistilBertConfig",
                 tasks.which_text, vocab_size=V, dim=64, n_layers=4, n_heads=4, hidden_dim=128,
                 num_labels=4, **SHORT),
    _transformer("RoBERTa", "RobertaForSequenceClassification", "RobertaConfig", tasks.which_text,
                 **WIDE, num_labels=4, pad_token_id=0),
    _transformer("T5", "T5ForConditionalGeneration", "T5Config", tasks.told_twice, vocab_size=V,
                 d_model=64, d_kv=16, d_ff=128, num_layers=3, num_heads=4),
    _transformer("Whisper", "WhisperForConditionalGeneration", "WhisperConfig", tasks.spoken,
                 vocab_size=V, num_mel_bins=16, encoder_layers=3, decoder_layers=3, d_model=64,
                 encoder_attention_heads=4, decoder_attention_heads=4, encoder_ffn_dim=128,
                 decoder_ffn_dim=128, max_source_positions=32, max_target_positions=64,
                 pad_token_id=0, bos_token_id=1, eos_token_id=2, decoder_start_token_id=1),
    Architecture("CLIP", "transformers", _clip, tasks.captioned),
    Architecture("UNet2D", "diffusers", _diffusers, tasks.noise),
    *(Architecture(k, "monai", partial(_monai, k), tasks.segments)
      for k in ("UNet", "SegResNet", "AttentionUnet")),
    *(Architecture(k.upper(), "torch_geometric", partial(Graphs, k), tasks.graphs)
      for k in ("gcn", "gat", "gin", "sage")),
    Architecture("KAN", "kan", _kan, tasks.formula),
    Architecture("SIREN", "torch", _siren, tasks.pixel_places),
    Architecture("LSTM letters", "torch", partial(Recurrent, nn.LSTM, letters=True),
                 partial(tasks.which_text, name=None)),
    Architecture("GRU digits", "torch", partial(Recurrent, nn.GRU, letters=False),
                 tasks.rows_of_digits),
    Architecture("autoencoder", "torch", _autoencoder, tasks.denoised),
)  # fmt: skip

# More of them, none of which was looked at while a rule was written or mended.
SMALL = (
    "resnetv2_18", "seresnet18", "ghostnet_050", "mobilenetv2_050", "mobileone_s0", "repvgg_a0",
    "lcnet_050", "tinynet_e", "mnasnet_small",
    "mobilevit_xxs", "edgenext_xx_small", "efficientformerv2_s0", "fastvit_t8", "repvit_m0_9",
    "starnet_s050", "xcit_nano_12_p16_224", "convit_tiny", "pit_ti_224", "levit_128s",
    "poolformer_s12", "convnextv2_atto",
)  # fmt: skip
_SIDES = {"efficientformerv2_s0": {"img_size": 64},
          "xcit_nano_12_p16_224": {"img_size": 64}, "convit_tiny": {"img_size": 64},
          "pit_ti_224": {"img_size": 64}, "levit_128s": {"img_size": 64}}  # fmt: skip
MORE = (
    *(_timm(name, 64, **_SIDES.get(name, {})) for name in SMALL),
    _transformer("OPT", "OPTForCausalLM", "OPTConfig", tasks.next_letters, vocab_size=V,
                 hidden_size=64, num_hidden_layers=4, num_attention_heads=4, ffn_dim=128,
                 word_embed_proj_dim=64, **SHORT),
    _transformer("BLOOM", "BloomForCausalLM", "BloomConfig", tasks.next_letters, vocab_size=V,
                 hidden_size=64, n_layer=4, n_head=4),
    _transformer("Phi", "PhiForCausalLM", "PhiConfig", tasks.next_letters, **WIDE),
    _transformer("Qwen2", "Qwen2ForCausalLM", "Qwen2Config", tasks.next_letters, **WIDE,
                 num_key_value_heads=2),
    _transformer("Gemma", "GemmaForCausalLM", "GemmaConfig", tasks.next_letters, **WIDE,
                 num_key_value_heads=2, head_dim=16),
    _transformer("Falcon", "FalconForCausalLM", "FalconConfig", tasks.next_letters, **LM),
    _transformer("StableLM", "StableLmForCausalLM", "StableLmConfig", tasks.next_letters, **WIDE,
                 num_key_value_heads=4),
    _transformer("GPT-J", "GPTJForCausalLM", "GPTJConfig", tasks.next_letters, vocab_size=V,
                 n_positions=64, n_embd=64, n_layer=4, n_head=4, rotary_dim=8),
    _transformer("Mixtral", "MixtralForCausalLM", "MixtralConfig", tasks.next_letters, **WIDE,
                 num_key_value_heads=2, num_local_experts=4),
    _transformer("OLMo", "OlmoForCausalLM", "OlmoConfig", tasks.next_letters, **WIDE),
    _transformer("ELECTRA", "ElectraForSequenceClassification", "ElectraConfig",
                 tasks.which_text, **WIDE, embedding_size=64, num_labels=4),
    _transformer("ALBERT", "AlbertForSequenceClassification", "AlbertConfig", tasks.which_text,
                 **WIDE, embedding_size=32, num_labels=4),
    _transformer("DeBERTa-v2", "DebertaV2ForSequenceClassification", "DebertaV2Config",
                 tasks.which_text, **WIDE, num_labels=4),
    _transformer("ModernBERT", "ModernBertForMaskedLM", "ModernBertConfig", tasks.masked_letters,
                 **WIDE, pad_token_id=0),
    _transformer("BART", "BartForConditionalGeneration", "BartConfig", tasks.told_twice,
                 vocab_size=V, d_model=64, encoder_layers=3, decoder_layers=3,
                 encoder_attention_heads=4, decoder_attention_heads=4, encoder_ffn_dim=128,
                 decoder_ffn_dim=128, **SHORT),
    *(Architecture(name, "torchvision", partial(_torchvision, name), partial(tasks.images, size=64))
      for name in ("squeezenet1_1", "shufflenet_v2_x0_5", "mobilenet_v3_small", "resnet18")),
    Architecture("GRU letters", "torch", partial(Recurrent, nn.GRU, letters=True),
                 partial(tasks.which_text, name=None)),
    Architecture("LSTM digits", "torch", partial(Recurrent, nn.LSTM, letters=False),
                 tasks.rows_of_digits),
)  # fmt: skip

# And a third set, drawn after the second had been looked at.
LATE = (
    "resnext26ts", "gernet_s", "hardcorenas_a", "efficientvit_b0", "mobilenetv4_conv_small_050",
    "semnasnet_050", "dla46_c", "regnety_002", "skresnet18", "ese_vovnet19b_slim_dw",
    "visformer_tiny", "rexnet_100", "tf_efficientnet_lite0", "ghostnetv2_100",
)  # fmt: skip
LAST = (
    *(_timm(name, 64, **({"img_size": 64} if "visformer" in name else {})) for name in LATE),
    _transformer("Qwen3", "Qwen3ForCausalLM", "Qwen3Config", tasks.next_letters, **WIDE,
                 num_key_value_heads=2, head_dim=16),
    _transformer("CodeGen", "CodeGenForCausalLM", "CodeGenConfig", tasks.next_letters,
                 vocab_size=V, n_positions=64, n_embd=64, n_layer=4, n_head=4, rotary_dim=8),
    _transformer("GPTBigCode", "GPTBigCodeForCausalLM", "GPTBigCodeConfig", tasks.next_letters,
                 vocab_size=V, n_positions=64, n_embd=64, n_layer=4, n_head=4),
    _transformer("MPT", "MptForCausalLM", "MptConfig", tasks.next_letters, vocab_size=V,
                 d_model=64, n_heads=4, n_layers=4, max_seq_len=64),
    _transformer("Granite", "GraniteForCausalLM", "GraniteConfig", tasks.next_letters, **WIDE),
    _transformer("Cohere", "CohereForCausalLM", "CohereConfig", tasks.next_letters, **WIDE),
    _transformer("Starcoder2", "Starcoder2ForCausalLM", "Starcoder2Config", tasks.next_letters,
                 **WIDE, num_key_value_heads=2),
    _transformer("Mamba2", "Mamba2ForCausalLM", "Mamba2Config", tasks.next_letters, vocab_size=V,
                 hidden_size=64, num_hidden_layers=4, state_size=8, num_heads=8, head_dim=16,
                 n_groups=1),
    _transformer("XLNet", "XLNetForSequenceClassification", "XLNetConfig", tasks.which_text,
                 vocab_size=V, d_model=64, n_layer=4, n_head=4, d_inner=128, num_labels=4),
    _transformer("MPNet", "MPNetForSequenceClassification", "MPNetConfig", tasks.which_text,
                 **WIDE, num_labels=4),
    _transformer("SqueezeBERT", "SqueezeBertForSequenceClassification", "SqueezeBertConfig",
                 tasks.which_text, **WIDE, embedding_size=64, num_labels=4, q_groups=2,
                 k_groups=2, v_groups=2, post_attention_groups=1, intermediate_groups=2,
                 output_groups=2),
    _transformer("FNet", "FNetForSequenceClassification", "FNetConfig", tasks.which_text,
                 vocab_size=V, hidden_size=64, num_hidden_layers=4, intermediate_size=128,
                 max_position_embeddings=64, num_labels=4),
    *(Architecture(name, "torchvision", partial(_torchvision, name), partial(tasks.images, size=64))
      for name in ("mnasnet0_5", "mobilenet_v2")),
)  # fmt: skip
