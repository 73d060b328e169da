"""Small networks of every kind that a measurement has to survive; all rooms share them.

`MODELS[name]()` returns a fresh (module, batch), the same every time, and leaves torch's global
generator as it was. `call(module, batch)` runs it as the library does: a tuple as positional
arguments, a mapping as keyword arguments.
"""

import warnings
from collections.abc import Callable, Mapping
from functools import cache, partial

import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint

from sigmascope.models import Subject
from sigmascope.models.networks import UncentredBatchNorm, mlp, resnet, vgg
from sigmascope.models.samples import as_tensor, prepared, run

MODELS: dict[str, Callable[[], tuple[nn.Module, object]]] = {}


def call(module, batch):
    if isinstance(batch, Mapping):
        return module(**batch)
    return module(*batch) if isinstance(batch, tuple) else module(batch)


def require_unused(measured, net, batch):
    """No layer of which a profile says that it is not called has a gradient of the output."""
    idle = {r.site for r in measured.readings if r.quantity == "times called"}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        out = as_tensor(run(net, prepared(net, batch)))[0] if idle else None
    if out is None or not out.requires_grad:
        return
    own = {n: p for n, p in net.named_parameters() if n.rpartition(".")[0] in idle}
    slopes = torch.autograd.grad(out.sum(), [*own.values()], allow_unused=True)
    assert not [n for n, g in zip(own, slopes, strict=True) if g is not None and bool(g.any())]


@cache
def subject_of(name):
    """One subject for all questions that leave it as it was."""
    return Subject(*MODELS[name]())


def model(function):
    """List a function as a model that is built with torch's global generator at 0."""

    def build():
        with torch.random.fork_rng(devices=[]):
            torch.default_generator.manual_seed(0)
            return function()

    MODELS[function.__name__.replace("_", "-")] = build
    return function


class Net(nn.Module):
    """Named parts, and a function of them and the inputs that is the forward pass."""

    def __init__(self, forward, **parts):
        super().__init__()
        for name, part in parts.items():
            if isinstance(part, nn.Parameter):
                self.register_parameter(name, part)
            else:
                self.add_module(name, part)
        self.run = forward

    def forward(self, *inputs, **named):
        return self.run(self, *inputs, **named)


def rows(*shape):
    return torch.randn(8, *shape)


def images(channels=1, size=8):
    return torch.randn(6, channels, size, size)


def tokens(length=7, words=23, samples=5):
    return torch.randint(words, (samples, length))


# Chains


@model
def linear():
    return nn.Linear(6, 4), rows(6)


@model
def relu_mlp():
    return mlp(inputs=6, outputs=3, depth=3, width=10), rows(6)


@model
def deep_linear():
    return mlp(inputs=6, outputs=3, depth=4, width=7, activation="linear", bias=False), rows(6)


@model
def residual_mlp():
    return mlp(inputs=6, outputs=3, depth=3, width=9, residual=0.5, activation="gelu"), rows(6)


@model
def scalar_output():
    return nn.Sequential(nn.Linear(6, 5), nn.Tanh(), nn.Linear(5, 1), nn.Flatten(0)), rows(6)


@model
def wide_head():
    return nn.Sequential(nn.Linear(6, 5), nn.ReLU(), nn.Linear(5, 10_000)), rows(6)


@model
def inplace_relu():
    parts = (nn.Linear(6, 8), nn.ReLU(inplace=True), nn.Linear(8, 8), nn.ReLU(inplace=True))
    return nn.Sequential(*parts, nn.Linear(8, 3)), rows(6)


@model
def inplace_residual():
    def forward(net, x):
        x = net.first(x)
        x += net.second(x)
        return net.readout(x)

    parts = {"first": nn.Linear(6, 8), "second": nn.Linear(8, 8), "readout": nn.Linear(8, 3)}
    return Net(forward, **parts), rows(6)


@model
def shared_twice():
    layer = nn.Linear(6, 6)
    return nn.Sequential(layer, nn.ReLU(), layer, nn.ReLU(), nn.Linear(6, 3)), rows(6)


@model
def frozen_parameters():
    net = nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 3))
    net[0].requires_grad_(False)
    return net, rows(6)


@model
def all_frozen():
    return nn.Sequential(nn.Linear(6, 8), nn.ReLU(), nn.Linear(8, 3)).requires_grad_(False), rows(6)


@model
def raw_parameter():
    def forward(net, x):
        return F.linear(F.relu(F.linear(x, net.weight)), net.other, net.bias)

    weight, other = nn.Parameter(torch.randn(8, 6) / 3), nn.Parameter(torch.randn(3, 8) / 3)
    return Net(forward, weight=weight, other=other, bias=nn.Parameter(torch.zeros(3))), rows(6)


@model
def weight_norm():
    layer = nn.utils.parametrizations.weight_norm(nn.Linear(6, 8))
    return nn.Sequential(layer, nn.ReLU(), nn.Linear(8, 3)), rows(6)


@model
def spectral_norm():
    layer = nn.utils.parametrizations.spectral_norm(nn.Linear(6, 8))
    return nn.Sequential(layer, nn.ReLU(), nn.Linear(8, 3)), rows(6)


@model
def bilinear():
    parts = {"mix": nn.Bilinear(6, 4, 5), "readout": nn.Linear(5, 3)}
    return Net(lambda net, a, b: net.readout(net.mix(a, b)), **parts), (rows(6), rows(4))


@model
def dropout():
    return nn.Sequential(nn.Linear(6, 16), nn.ReLU(), nn.Dropout(0.5), nn.Linear(16, 3)), rows(6)


@model
def gradient_checkpointing():
    def forward(net, x):
        return net.readout(checkpoint(net.body, x, use_reentrant=False))

    body = nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 8), nn.Tanh())
    return Net(forward, body=body, readout=nn.Linear(8, 3)), rows(6)


@model
def module_list():
    def forward(net, x):
        for layer in net.layers:
            x = torch.tanh(layer(x))
        return x

    return Net(forward, layers=nn.ModuleList(nn.Linear(6, 6) for _ in range(3))), rows(6)


@model
def unused_layer():
    parts = {"used": nn.Linear(6, 3), "unused": nn.Linear(6, 3)}
    return Net(lambda net, x: net.used(x), **parts), rows(6)


@model
def mixture_of_experts():
    def forward(net, x):
        choice = net.gate(x).argmax(1)
        out = x.new_zeros(len(x), 5)
        for number, expert in enumerate(net.experts):
            mine = choice == number
            if bool(mine.any()):  # depends on the data: no graph can be traced
                out[mine] = expert(x[mine])
        return net.readout(out)

    experts = nn.ModuleList(nn.Linear(6, 5) for _ in range(3))
    return Net(forward, gate=nn.Linear(6, 3), experts=experts, readout=nn.Linear(5, 3)), rows(6)


# Normalisation


def _normalised(norm):
    return nn.Sequential(nn.Linear(6, 8), norm, nn.ReLU(), nn.Linear(8, 3))


@model
def batchnorm_train():
    return _normalised(nn.BatchNorm1d(8)), rows(6)


@model
def batchnorm_eval():
    net = _normalised(nn.BatchNorm1d(8))
    net(rows(6))  # so that the running statistics are not the initial ones
    return net.eval(), rows(6)


@model
def uncentred_batchnorm():
    return _normalised(UncentredBatchNorm(8, eps=0.0)), rows(6)


@model
def layernorm():
    return _normalised(nn.LayerNorm(8)), rows(6)


@model
def rmsnorm():
    return _normalised(nn.RMSNorm(8)), rows(6)


def _normalised_images(norm):
    body = (nn.Conv2d(1, 6, 3, padding=1), norm, nn.ReLU(), nn.AdaptiveAvgPool2d(1))
    return nn.Sequential(*body, nn.Flatten(), nn.Linear(6, 3))


@model
def batchnorm_images():
    return _normalised_images(nn.BatchNorm2d(6)), images()


@model
def groupnorm():
    return _normalised_images(nn.GroupNorm(2, 6)), images()


@model
def instancenorm():
    return _normalised_images(nn.InstanceNorm2d(6, affine=True)), images()


# Convolutions


def _convolutional(*layers):
    return nn.Sequential(*layers, nn.ReLU(), nn.Flatten(), nn.LazyLinear(3))


def _materialised(net, batch):
    call(net, batch)  # gives lazy layers their shape
    return net, batch


@model
def conv():
    return _materialised(_convolutional(nn.Conv2d(1, 4, 3, padding=1)), images())


@model
def conv_circular():
    layer = nn.Conv2d(2, 4, 3, padding=1, padding_mode="circular")
    return _materialised(_convolutional(layer), images(2))


@model
def conv_grouped():
    return _materialised(_convolutional(nn.Conv2d(4, 8, 3, groups=2)), images(4))


@model
def conv_depthwise():
    layers = (nn.Conv2d(4, 4, 3, padding=1, groups=4), nn.Conv2d(4, 6, 1))
    return _materialised(_convolutional(*layers), images(4))


@model
def conv_dilated_strided():
    layer = nn.Conv2d(2, 4, 3, padding=2, dilation=2, stride=2)
    return _materialised(_convolutional(layer), images(2))


@model
def conv_transposed():
    layers = (nn.Conv2d(1, 4, 3, stride=2, padding=1), nn.ReLU(), nn.ConvTranspose2d(4, 2, 4, 2, 1))
    return _materialised(_convolutional(*layers), images())


@model
def conv1d():
    return _materialised(_convolutional(nn.Conv1d(2, 4, 3, padding=1)), rows(2, 9))


@model
def conv3d():
    return _materialised(_convolutional(nn.Conv3d(1, 3, 3, padding=1)), rows(1, 4, 5, 4))


@model
def dense_concat():
    def forward(net, x):
        for layer in net.layers:
            x = torch.cat([x, F.relu(layer(x))], 1)
        return net.readout(x.mean((2, 3)))

    layers = nn.ModuleList(nn.Conv2d(1 + 3 * i, 3, 3, padding=1) for i in range(3))
    return Net(forward, layers=layers, readout=nn.Linear(10, 3)), images()


@model
def unet():
    def forward(net, x):
        first = F.relu(net.down1(x))
        second = F.relu(net.down2(F.max_pool2d(first, 2)))
        joined = torch.cat([first, F.relu(net.up(second))], 1)
        return net.head(joined)

    parts = {
        "down1": nn.Conv2d(1, 4, 3, padding=1),
        "down2": nn.Conv2d(4, 6, 3, padding=1),
        "up": nn.ConvTranspose2d(6, 4, 2, stride=2),
        "head": nn.Conv2d(8, 2, 1),
    }
    return Net(forward, **parts), images()


@model
def small_vgg():
    return vgg(inputs=(1, 8, 8), outputs=3, depth=3, width=4, norm="batch"), images()


@model
def small_resnet():
    return resnet(inputs=(3, 8, 8), outputs=3, depth=8, width=4), images(3)


@model
def fft_mixing():
    def forward(net, x):
        mixed = torch.fft.fft(net.embed(x), dim=1).real
        return net.readout(F.gelu(mixed).mean(1))

    return Net(forward, embed=nn.Linear(6, 8), readout=nn.Linear(8, 3)), rows(5, 6)


# Recurrence


@model
def lstm():
    parts = {"lstm": nn.LSTM(4, 6, batch_first=True), "readout": nn.Linear(6, 3)}
    return Net(lambda net, x: net.readout(net.lstm(x)[0][:, -1]), **parts), rows(5, 4)


@model
def lstm_bidirectional():
    parts = {
        "lstm": nn.LSTM(4, 6, num_layers=2, bidirectional=True, batch_first=True),
        "readout": nn.Linear(12, 3),
    }
    return Net(lambda net, x: net.readout(net.lstm(x)[0][:, -1]), **parts), rows(5, 4)


@model
def gru():
    parts = {"gru": nn.GRU(4, 6, batch_first=True), "readout": nn.Linear(6, 3)}
    return Net(lambda net, x: net.readout(net.gru(x)[0][:, -1]), **parts), rows(5, 4)


@model
def lstm_cell_loop():
    def forward(net, x):
        state = None
        for step in x.unbind(1):
            state = net.cell(step, state)
        return net.readout(state[0])

    return Net(forward, cell=nn.LSTMCell(4, 6), readout=nn.Linear(6, 3)), rows(5, 4)


@model
def rnn():
    parts = {"rnn": nn.RNN(4, 6, batch_first=True), "readout": nn.Linear(6, 3)}
    return Net(lambda net, x: net.readout(net.rnn(x)[1][-1]), **parts), rows(5, 4)


# Attention


def _attention(batch_first):
    def forward(net, x):
        x = x + net.attention(x, x, x, need_weights=False)[0]
        return net.readout(x.mean(1 if batch_first else 0))

    layer = nn.MultiheadAttention(8, 2, batch_first=batch_first)
    return Net(forward, attention=layer, readout=nn.Linear(8, 3))


@model
def attention_batch_first():
    return _attention(True), rows(5, 8)


@model
def attention_sequence_first():
    # Samples are in the second dimension of what the layer sees; the batch itself has them first.
    inner = _attention(False)
    return Net(lambda net, x: net.inner(x.transpose(0, 1)), inner=inner), rows(5, 8)


def _encoder():
    layer = nn.TransformerEncoderLayer(8, 2, 16, dropout=0.1, batch_first=True)
    encoder = nn.TransformerEncoder(layer, 2)
    parts = {"encoder": encoder, "readout": nn.Linear(8, 3)}
    return Net(lambda net, x: net.readout(net.encoder(x).mean(1)), **parts)


@model
def transformer_encoder_train():
    return _encoder(), rows(5, 8)


@model
def transformer_encoder_eval():
    return _encoder().eval(), rows(5, 8)


class PreNorm(nn.Module):
    """A transformer block with the norm before each part, as in GPT-2."""

    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.fc1, self.fc2 = nn.Linear(width, 2 * width), nn.Linear(2 * width, width)

    def forward(self, x, causal=False):
        n, length, width = x.shape
        qkv = self.qkv(self.norm1(x)).view(n, length, 3, self.heads, width // self.heads)
        q, k, v = qkv.permute(2, 0, 3, 1, 4)
        mixed = F.scaled_dot_product_attention(q, k, v, is_causal=causal)
        x = x + self.out(mixed.transpose(1, 2).reshape(n, length, width))
        return x + self.fc2(F.gelu(self.fc1(self.norm2(x))))


@model
def transformer_pre_norm():
    parts = {"blocks": nn.Sequential(PreNorm(8, 2), PreNorm(8, 2)), "readout": nn.Linear(8, 3)}
    return Net(lambda net, x: net.readout(net.blocks(x).mean(1)), **parts), rows(5, 8)


@model
def vision_transformer():
    def forward(net, x):
        x = net.patches(x).flatten(2).transpose(1, 2)
        x = torch.cat([net.token.expand(len(x), -1, -1), x], 1) + net.positions
        return net.head(net.norm(net.blocks(x))[:, 0])

    parts = {
        "patches": nn.Conv2d(1, 8, 4, stride=4),
        "token": nn.Parameter(torch.zeros(1, 1, 8)),
        "positions": nn.Parameter(torch.randn(1, 5, 8) / 10),
        "blocks": nn.Sequential(PreNorm(8, 2), PreNorm(8, 2)),
        "norm": nn.LayerNorm(8),
        "head": nn.Linear(8, 3),
    }
    return Net(forward, **parts), images()


@model
def language_model_tied():
    def forward(net, ids):
        x = net.words(ids) + net.places(torch.arange(ids.shape[1], device=ids.device))
        return net.head(net.norm(net.block(x, causal=True)))

    words, head = nn.Embedding(23, 8), nn.Linear(8, 23, bias=False)
    head.weight = words.weight
    parts = {"words": words, "places": nn.Embedding(16, 8), "block": PreNorm(8, 2)}
    return Net(forward, **parts, norm=nn.LayerNorm(8), head=head), tokens()


@model
def bag_of_words():
    parts = {"bag": nn.EmbeddingBag(23, 6), "readout": nn.Linear(6, 3)}
    return Net(lambda net, ids: net.readout(net.bag(ids)), **parts), tokens()


@model
def embedding_mlp():
    body = (nn.Embedding(23, 4), nn.Flatten(), nn.Linear(28, 6), nn.ReLU(), nn.Linear(6, 3))
    return nn.Sequential(*body), tokens()


# What goes in and comes out


@model
def tuple_input():
    parts = {"left": nn.Linear(6, 5), "right": nn.Linear(4, 5), "readout": nn.Linear(5, 3)}

    def forward(net, a, b):
        return net.readout(F.relu(net.left(a) + net.right(b)))

    return Net(forward, **parts), (rows(6), rows(4))


@model
def dict_input():
    parts = {"words": nn.Embedding(23, 6), "readout": nn.Linear(6, 3)}

    def forward(net, ids, mask):
        return net.readout((net.words(ids) * mask.unsqueeze(-1)).sum(1))

    return Net(forward, **parts), {"ids": tokens(), "mask": torch.ones(5, 7)}


@model
def dict_output():
    parts = {"body": nn.Linear(6, 5), "readout": nn.Linear(5, 3)}

    def forward(net, x):
        hidden = F.relu(net.body(x))
        return {"hidden": hidden, "logits": net.readout(hidden)}

    return Net(forward, **parts), rows(6)


@model
def tuple_output():
    parts = {"body": nn.Linear(6, 5), "readout": nn.Linear(5, 3)}

    def forward(net, x):
        hidden = F.relu(net.body(x))
        return net.readout(hidden), hidden

    return Net(forward, **parts), rows(6)


# Precision


def _of_precision(dtype):
    net = nn.Sequential(nn.Linear(6, 8), nn.LayerNorm(8), nn.ReLU(), nn.Linear(8, 3))
    return net.to(dtype), rows(6).to(dtype)


for _dtype in (torch.bfloat16, torch.float16, torch.float64):
    _build = partial(_of_precision, _dtype)
    _build.__name__ = str(_dtype).removeprefix("torch.")  # type: ignore[attr-defined]
    model(_build)


# Hugging Face: from a configuration, nothing is fetched


def _pretrained(name, config, batch, **options):
    import transformers

    settings = getattr(transformers, config)(**options)
    return getattr(transformers, name)(settings).eval(), batch


@model
def transformers_bert():
    return _pretrained(
        "BertForSequenceClassification", "BertConfig", {"input_ids": tokens(words=30)},
        vocab_size=30, hidden_size=16, num_hidden_layers=2, num_attention_heads=2,
        intermediate_size=24, max_position_embeddings=16, num_labels=3,
    )  # fmt: skip


@model
def transformers_gpt2():
    return _pretrained(
        "GPT2LMHeadModel", "GPT2Config", {"input_ids": tokens(words=30)},
        vocab_size=30, n_positions=16, n_embd=16, n_layer=2, n_head=2, bos_token_id=0,
        eos_token_id=0,
    )  # fmt: skip


@model
def transformers_vit():
    return _pretrained(
        "ViTForImageClassification", "ViTConfig", {"pixel_values": images(3, 16)},
        hidden_size=16, num_hidden_layers=2, num_attention_heads=2, intermediate_size=24,
        image_size=16, patch_size=8, num_labels=3,
    )  # fmt: skip


@model
def transformers_t5():
    batch = {"input_ids": tokens(words=30), "decoder_input_ids": tokens(4, words=30)}
    return _pretrained(
        "T5ForConditionalGeneration", "T5Config", batch, vocab_size=30, d_model=16, d_kv=8,
        d_ff=24, num_layers=2, num_heads=2, decoder_start_token_id=0,
    )  # fmt: skip


@model
def transformers_llama():
    return _pretrained(
        "LlamaForCausalLM", "LlamaConfig", {"input_ids": tokens(words=30)},
        vocab_size=30, hidden_size=16, intermediate_size=24, num_hidden_layers=2,
        num_attention_heads=4, num_key_value_heads=2, max_position_embeddings=16,
    )  # fmt: skip
