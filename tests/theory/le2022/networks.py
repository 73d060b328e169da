"""Networks of every kind that the theory of balances speaks of, each drawn from a seed."""

from functools import partial
from itertools import pairwise

import torch
from torch import nn
from torch.nn import functional as F

from tests.models_zoo import Net

EPS = 1e-30  # of normalisers: PyTorch refuses zero in training


def mlp(act, *widths, bias=True):
    layers = []
    for a, b in pairwise(widths):
        layers += [nn.Linear(a, b, bias=bias), act()]
    return nn.Sequential(*layers[:-1])


def draw(seed, *shapes):
    g = torch.Generator().manual_seed(seed)
    return [torch.randn(*s, generator=g, dtype=torch.float64) for s in shapes]


def dense(*widths, seed=0):
    g = torch.Generator().manual_seed(seed)
    net = nn.Sequential(*(nn.Linear(a, b, bias=False) for a, b in pairwise(widths)))
    with torch.no_grad():
        for layer in net:
            layer.weight.copy_(torch.randn(layer.weight.shape, generator=g))
    return net.double()


class Abs(nn.Module):
    def forward(self, x):
        return x.abs()


def free_block(act=nn.Identity, outer=nn.Identity):
    def forward(net, x):
        x = net.u1(net.act(net.y1(x))) + net.z1(x)
        x = net.u2(net.act(net.y2(net.outer(x)))) + net.z2(net.outer(x))
        return net.w(net.outer(x))

    sizes = {"y1": (5, 6), "u1": (6, 7), "z1": (5, 7), "y2": (7, 4), "u2": (4, 6), "z2": (7, 6)}
    return Net(forward, **unbiased(**sizes, w=(6, 2)), act=act(), outer=outer())


def unbiased(**sizes):
    """Layers without biases, by name."""
    return {name: nn.Linear(a, b, bias=False) for name, (a, b) in sizes.items()}


def conv_resnet_free():
    def forward(net, x):
        x = net.conv(x).flatten(1)
        return net.w(net.u(net.y(x)) + net.z(x))

    sizes = {"y": (3 * 36, 4), "u": (4, 5), "z": (3 * 36, 5), "w": (5, 2)}
    return Net(forward, conv=nn.Conv2d(2, 3, 3), **unbiased(**sizes))


def resnet_identity():
    def forward(net, x):
        x = net.stem(x)
        x = x + net.u1(F.relu(net.y1(x)))
        x = x + net.u2(F.relu(net.y2(x)))
        return net.w(x)

    sizes = {"stem": (5, 6), "y1": (6, 4), "u1": (4, 6), "y2": (6, 4), "u2": (4, 6), "w": (6, 2)}
    return Net(forward, **{name: nn.Linear(a, b) for name, (a, b) in sizes.items()})


def resnet_diagonal():
    def forward(net, x):
        x = net.d1 * x + net.u1(F.relu(net.y1(x)))
        x = net.d2 * x + net.u2(F.relu(net.y2(x)))
        return net.w(x)

    diagonal = lambda: nn.Parameter(torch.randn(5))
    first, second = unbiased(y1=(5, 4), u1=(4, 5)), {"d1": diagonal()}
    return Net(
        forward,
        **first,
        **second,
        **unbiased(y2=(5, 4), u2=(4, 5)),
        d2=diagonal(),
        **unbiased(w=(5, 2)),
    )


def concat():
    def forward(net, x):
        y = net.a(x)
        return net.c(torch.cat([y, net.b(y)], 1))

    return Net(forward, a=nn.Linear(5, 4), b=nn.Linear(4, 3), c=nn.Linear(7, 2))


def attention(net, x, heads, groups=None, turn=None, norm=None):
    """Causal attention with separate maps; `groups` key heads are shared by the query heads."""
    b, n, _ = x.shape
    groups = groups or heads
    q = net.q(x).view(b, n, heads, -1).transpose(1, 2)
    k = net.k(x).view(b, n, groups, -1).transpose(1, 2)
    v = net.v(x).view(b, n, groups, -1).transpose(1, 2)
    if norm is not None:
        q, k = norm(q), norm(k)
    if turn is not None:
        q, k = turn(q), turn(k)
    k, v = (t.repeat_interleave(heads // groups, 1) for t in (k, v))
    out = F.scaled_dot_product_attention(q, k, v, is_causal=True)
    return net.o(out.transpose(1, 2).reshape(b, n, -1))


def rotated(x):
    """Rotary embedding: each plane of two coordinates by an angle that grows with position."""
    n, d = x.shape[-2:]
    angle = torch.arange(n)[:, None] * 10 ** -torch.arange(d // 2)
    cos, sin = (t.repeat(1, 2).to(x.dtype) for t in (angle.cos(), angle.sin()))
    half = torch.cat([-x[..., d // 2 :], x[..., : d // 2]], -1)
    return x * cos + half * sin


def block(heads=2, groups=None, **options):
    def forward(net, x):
        x = x + attention(net, net.norm(x), heads, groups, **options)
        return x + net.down(F.relu(net.up(x)))

    wide = 8 // heads * (groups or heads)
    return Net(
        forward,
        norm=nn.LayerNorm(8, eps=EPS),
        q=nn.Linear(8, 8),
        k=nn.Linear(8, wide),
        v=nn.Linear(8, wide),
        o=nn.Linear(8, 8),
        up=nn.Linear(8, 6),
        down=nn.Linear(6, 8),
    )


def gated(act):
    def forward(net, x):
        return net.down(act(net.gate(x)) * net.up(x))

    return Net(forward, gate=nn.Linear(5, 6), up=nn.Linear(5, 6), down=nn.Linear(6, 3))


def tied_embedding():
    def forward(net, tokens):
        return net.m(net.e(tokens)) @ net.e.weight.T

    return Net(forward, e=nn.Embedding(7, 5), m=nn.Linear(5, 5, bias=False))


def lora():
    def forward(net, x):
        return net.head(F.relu(net.base(x) + net.b(net.a(x))))

    base, thin = nn.Linear(5, 6).requires_grad_(False), unbiased(a=(5, 3), b=(3, 6))
    return Net(forward, base=base, **thin, head=nn.Linear(6, 2))


def relu_rnn():
    rnn = nn.RNN(5, 6, nonlinearity="relu", batch_first=True)
    return Net(lambda net, x: net.head(net.rnn(x)[0][:, -1]), rnn=rnn, head=nn.Linear(6, 2))


def layer_scale():
    def forward(net, x):
        return x + net.scale * net.down(F.relu(net.up(x)))

    up, down = nn.Linear(5, 6), nn.Linear(6, 5)
    return Net(forward, up=up, down=down, scale=nn.Parameter(torch.randn(5)))


def residual_norm():
    def basic(a, b):
        return nn.Sequential(nn.Conv2d(a, b, 3, padding=1, bias=False), nn.BatchNorm2d(b, eps=EPS))

    def forward(net, x):
        x = F.relu(net.stem(x))
        x = F.relu(net.second(F.relu(net.first(x))) + net.skip(x))
        return net.head(x.mean((2, 3)))

    return Net(
        forward,
        stem=basic(2, 4),
        first=basic(4, 6),
        second=basic(6, 6),
        skip=basic(4, 6),
        head=nn.Linear(6, 3),
    )


def bert():
    from transformers import BertConfig, BertModel

    config = BertConfig(
        vocab_size=20, hidden_size=8, num_hidden_layers=2, num_attention_heads=2,
        intermediate_size=10, hidden_act="relu", layer_norm_eps=EPS, max_position_embeddings=8,
    )  # fmt: skip
    net = Net(
        lambda n, t: n.bert(t).last_hidden_state, bert=BertModel(config, add_pooling_layer=False)
    )
    return net.eval()


def gpt2():
    from transformers import GPT2Config, GPT2LMHeadModel

    config = GPT2Config(
        vocab_size=20, n_embd=8, n_layer=2, n_head=2, n_positions=8, n_inner=10,
        activation_function="relu", layer_norm_epsilon=EPS, bos_token_id=1, eos_token_id=1,
    )  # fmt: skip
    net = Net(lambda n, t: n.gpt(t, use_cache=False).logits, gpt=GPT2LMHeadModel(config))
    return net.eval()


x5 = lambda n=6: torch.randn(n, 5)
image = lambda: torch.randn(3, 2, 8, 8)
tokens = lambda: torch.randn(3, 5, 8)
normed = torch.nn.utils.parametrizations.weight_norm
# a network, or its modules in a row, and a batch
BUILT = {
    "relu": (lambda: mlp(nn.ReLU, 5, 8, 7, 3), x5),
    "leaky": (lambda: mlp(lambda: nn.LeakyReLU(0.2), 5, 8, 7, 3, bias=False), x5),
    "absolute": (lambda: mlp(Abs, 5, 6, 4, 2), x5),
    "few_samples": (lambda: mlp(nn.ReLU, 5, 12, 3), lambda: x5(2)),
    "linear": (lambda: mlp(nn.Identity, 5, 6, 7, 4, 1), x5),
    "conv_conv": (
        lambda: [
            nn.Conv2d(2, 4, (3, 2), stride=2, padding=1, padding_mode="circular"),
            nn.Conv2d(4, 5, 2, dilation=2),
        ],
        image,
    ),
    "conv_reflect": (
        lambda: [
            nn.Conv2d(2, 4, 3, padding=2, padding_mode="reflect", bias=False),
            nn.Conv2d(4, 3, 3),
        ],
        image,
    ),
    "conv_groups": (lambda: [nn.Conv2d(2, 12, 3, groups=2), nn.Conv2d(12, 6, 3, groups=3)], image),
    "conv_depthwise": (
        lambda: [nn.Conv2d(2, 4, 3), nn.Conv2d(4, 4, 3, groups=4), nn.Conv2d(4, 3, 1)],
        image,
    ),
    "conv_pool_dense": (
        lambda: [nn.Conv2d(2, 4, 3), nn.AvgPool2d(2), nn.Flatten(), nn.Linear(4 * 9, 3)],
        image,
    ),
    "conv_relu_pool_dense": (
        lambda: [
            *(nn.Conv2d(2, 4, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(4 * 9, 3))
        ],
        image,
    ),
    "global_pool": (
        lambda: [nn.Conv2d(2, 4, 3), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(4, 3)],
        image,
    ),
    "transposed_conv": (
        lambda: [
            nn.Linear(5, 3 * 4 * 4),
            nn.Unflatten(1, (3, 4, 4)),
            nn.ConvTranspose2d(3, 4, 3, stride=2),
            nn.ReLU(),
            nn.Conv2d(4, 2, 3),
        ],
        x5,
    ),
    "resnet_free": (free_block, x5),
    "resnet_free_relu": (lambda: free_block(nn.ReLU), x5),
    "resnet_free_outer_relu": (lambda: free_block(nn.ReLU, nn.ReLU), x5),
    "conv_resnet_free": (conv_resnet_free, image),
    "resnet_identity": (resnet_identity, x5),
    "resnet_diagonal": (resnet_diagonal, x5),
    "concat": (concat, x5),
    "batch_norm": (
        lambda: [
            *(nn.Conv2d(2, 4, 3), nn.BatchNorm2d(4, eps=EPS), nn.ReLU()),
            *(nn.Conv2d(4, 5, 3), nn.BatchNorm2d(5, eps=EPS), nn.Flatten(), nn.Linear(5 * 16, 3)),
        ],
        image,
    ),
    "layer_norm": (
        lambda: [
            *(nn.Linear(5, 6), nn.LayerNorm(6, eps=EPS), nn.ReLU()),
            *(nn.Linear(6, 4), nn.Linear(4, 2)),
        ],
        x5,
    ),
    "rms_norm": (lambda: [nn.Linear(5, 6), nn.RMSNorm(6, eps=EPS), nn.Linear(6, 4)], x5),
    "group_norm": (
        lambda: [*(nn.Conv2d(2, 6, 3), nn.GroupNorm(3, 6, eps=EPS), nn.ReLU(), nn.Conv2d(6, 2, 3))],
        image,
    ),
    "weight_norm": (
        lambda: [normed(nn.Linear(5, 6)), nn.ReLU(), normed(nn.Linear(6, 4)), nn.Linear(4, 2)],
        x5,
    ),
    "dropout": (lambda: [nn.Linear(5, 8), nn.Dropout(0.4), nn.ReLU(), nn.Linear(8, 2)], x5),
    "pre_norm_block": (block, tokens),
    "rope": (lambda: block(turn=rotated), tokens),
    "grouped_queries": (lambda: block(heads=4, groups=2), tokens),
    "qk_norm": (lambda: block(norm=lambda t: t / t.square().mean(-1, keepdim=True).sqrt()), tokens),
    "swiglu": (lambda: gated(F.silu), x5),
    "reglu": (lambda: gated(F.relu), x5),
    "tied_autoencoder": (
        lambda: Net(lambda net, x: F.relu(x @ net.w.T) @ net.w, w=nn.Parameter(torch.randn(4, 5))),
        x5,
    ),
    "tied_embedding": (tied_embedding, lambda: torch.randint(7, (3, 4))),
    "lora": (lora, x5),
    "relu_rnn": (relu_rnn, lambda: torch.randn(3, 4, 5)),
    "layer_scale": (layer_scale, x5),
    "residual_norm": (residual_norm, image),
    "bert": (bert, lambda: torch.randint(1, 20, (3, 5))),
    "gpt2": (gpt2, lambda: torch.randint(20, (3, 5))),
}


def drawn(model, batch, seed):
    """A network and its batch from a seed, in float64, torch's state left alone."""
    with torch.random.fork_rng(devices=[]):
        torch.default_generator.manual_seed(seed)
        made = model()
        made, x = nn.Sequential(*made) if isinstance(made, list) else made, batch()
        for p in made.parameters():  # no zero biases, no unit gains: nothing holds by chance
            if p.ndim < 2:
                p.data.copy_(0.3 * torch.randn(p.shape) + (p.data == 1))
        return made.double(), (x.double() if x.is_floating_point() else x,)


KINDS = {name: partial(drawn, *of) for name, of in BUILT.items()}
