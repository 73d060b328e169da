"""Networks of every kind that the theory of balances speaks of, each drawn from a seed."""

from itertools import pairwise

import torch
from torch import nn
from torch.nn import functional as F

from tests.models_zoo import Net

EPS = 1e-30  # of normalisers: PyTorch refuses zero in training
KINDS = {}


def kind(function):
    """List a network by its name; built from a seed, in float64, torch's state left alone."""

    def build(seed):
        with torch.random.fork_rng(devices=[]):
            torch.default_generator.manual_seed(seed)
            model, batch = function()
            for p in model.parameters():  # no zero biases, no unit gains: nothing holds by chance
                if p.ndim < 2:
                    p.data.copy_(0.3 * torch.randn(p.shape) + (p.data == 1))
            halved = [t.double() if t.is_floating_point() else t for t in batch]
            return model.double(), tuple(halved)

    KINDS[function.__name__] = build
    return function


def mlp(act, *widths, bias=True):
    layers = []
    for a, b in pairwise(widths):
        layers += [nn.Linear(a, b, bias=bias), act()]
    return nn.Sequential(*layers[:-1])


class Abs(nn.Module):
    def forward(self, x):
        return x.abs()


x5 = lambda n=6: (torch.randn(n, 5),)
image = lambda c=2, s=8: (torch.randn(3, c, s, s),)


@kind
def relu():
    return mlp(nn.ReLU, 5, 8, 7, 3), x5()


@kind
def leaky():
    return mlp(lambda: nn.LeakyReLU(0.2), 5, 8, 7, 3, bias=False), x5()


@kind
def absolute():
    return mlp(Abs, 5, 6, 4, 2), x5()


@kind
def few_samples():
    return mlp(nn.ReLU, 5, 12, 3), x5(2)


@kind
def linear():
    return mlp(nn.Identity, 5, 6, 7, 4, 1), x5()


@kind
def conv_conv():
    first = nn.Conv2d(2, 4, (3, 2), stride=2, padding=1, padding_mode="circular")
    return nn.Sequential(first, nn.Conv2d(4, 5, 2, dilation=2)), image()


@kind
def conv_reflect():
    first = nn.Conv2d(2, 4, 3, padding=2, padding_mode="reflect", bias=False)
    return nn.Sequential(first, nn.Conv2d(4, 3, 3)), image()


@kind
def conv_groups():
    return nn.Sequential(nn.Conv2d(2, 12, 3, groups=2), nn.Conv2d(12, 6, 3, groups=3)), image()


@kind
def conv_depthwise():
    return nn.Sequential(
        nn.Conv2d(2, 4, 3), nn.Conv2d(4, 4, 3, groups=4), nn.Conv2d(4, 3, 1)
    ), image()


@kind
def conv_pool_dense():
    return nn.Sequential(
        nn.Conv2d(2, 4, 3), nn.AvgPool2d(2), nn.Flatten(), nn.Linear(4 * 9, 3)
    ), image()


@kind
def conv_relu_pool_dense():
    return nn.Sequential(
        nn.Conv2d(2, 4, 3), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(4 * 9, 3)
    ), image()


@kind
def global_pool():
    return nn.Sequential(
        nn.Conv2d(2, 4, 3), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(4, 3)
    ), image()


@kind
def transposed_conv():
    return nn.Sequential(
        nn.Linear(5, 3 * 4 * 4),
        nn.Unflatten(1, (3, 4, 4)),
        nn.ConvTranspose2d(3, 4, 3, stride=2),
        nn.ReLU(),
        nn.Conv2d(4, 2, 3),
    ), x5()


def free_block(act=nn.Identity):
    def forward(net, x):
        x = net.u1(net.act(net.y1(x))) + net.z1(x)
        x = net.u2(net.act(net.y2(net.outer(x)))) + net.z2(net.outer(x))
        return net.w(net.outer(x))

    def build(outer):
        dense = lambda a, b: nn.Linear(a, b, bias=False)
        return Net(
            forward,
            y1=dense(5, 6),
            u1=dense(6, 7),
            z1=dense(5, 7),
            y2=dense(7, 4),
            u2=dense(4, 6),
            z2=dense(7, 6),
            w=dense(6, 2),
            act=act(),
            outer=outer(),
        )

    return build


@kind
def resnet_free():
    return free_block()(nn.Identity), x5()


@kind
def resnet_free_relu():
    return free_block(nn.ReLU)(nn.Identity), x5()


@kind
def resnet_free_outer_relu():
    return free_block(nn.ReLU)(nn.ReLU), x5()


@kind
def conv_resnet_free():
    def forward(net, x):
        x = net.conv(x).flatten(1)
        return net.w(net.u(net.y(x)) + net.z(x))

    dense = lambda a, b: nn.Linear(a, b, bias=False)
    return Net(
        forward,
        conv=nn.Conv2d(2, 3, 3),
        y=dense(3 * 36, 4),
        u=dense(4, 5),
        z=dense(3 * 36, 5),
        w=dense(5, 2),
    ), image()


@kind
def resnet_identity():
    def forward(net, x):
        x = net.stem(x)
        x = x + net.u1(F.relu(net.y1(x)))
        x = x + net.u2(F.relu(net.y2(x)))
        return net.w(x)

    return Net(
        forward,
        stem=nn.Linear(5, 6),
        y1=nn.Linear(6, 4),
        u1=nn.Linear(4, 6),
        y2=nn.Linear(6, 4),
        u2=nn.Linear(4, 6),
        w=nn.Linear(6, 2),
    ), x5()


@kind
def resnet_diagonal():
    def forward(net, x):
        x = net.d1 * x + net.u1(F.relu(net.y1(x)))
        x = net.d2 * x + net.u2(F.relu(net.y2(x)))
        return net.w(x)

    dense = lambda a, b: nn.Linear(a, b, bias=False)
    return Net(
        forward,
        y1=dense(5, 4),
        u1=dense(4, 5),
        d1=nn.Parameter(torch.randn(5)),
        y2=dense(5, 4),
        u2=dense(4, 5),
        d2=nn.Parameter(torch.randn(5)),
        w=dense(5, 2),
    ), x5()


@kind
def concat():
    def forward(net, x):
        y = net.a(x)
        return net.c(torch.cat([y, net.b(y)], 1))

    return Net(forward, a=nn.Linear(5, 4), b=nn.Linear(4, 3), c=nn.Linear(7, 2)), x5()


@kind
def batch_norm():
    return nn.Sequential(
        nn.Conv2d(2, 4, 3),
        nn.BatchNorm2d(4, eps=EPS),
        nn.ReLU(),
        nn.Conv2d(4, 5, 3),
        nn.BatchNorm2d(5, eps=EPS),
        nn.Flatten(),
        nn.Linear(5 * 16, 3),
    ), image()


@kind
def layer_norm():
    return nn.Sequential(
        nn.Linear(5, 6), nn.LayerNorm(6, eps=EPS), nn.ReLU(), nn.Linear(6, 4), nn.Linear(4, 2)
    ), x5()


@kind
def rms_norm():
    return nn.Sequential(nn.Linear(5, 6), nn.RMSNorm(6, eps=EPS), nn.Linear(6, 4)), x5()


@kind
def group_norm():
    return nn.Sequential(
        nn.Conv2d(2, 6, 3), nn.GroupNorm(3, 6, eps=EPS), nn.ReLU(), nn.Conv2d(6, 2, 3)
    ), image()


@kind
def weight_norm():
    normed = torch.nn.utils.parametrizations.weight_norm
    return nn.Sequential(
        normed(nn.Linear(5, 6)), nn.ReLU(), normed(nn.Linear(6, 4)), nn.Linear(4, 2)
    ), x5()


@kind
def dropout():
    return nn.Sequential(nn.Linear(5, 8), nn.Dropout(0.4), nn.ReLU(), nn.Linear(8, 2)), x5()


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
    ), (torch.randn(3, 5, 8),)


@kind
def pre_norm_block():
    return block()


@kind
def rope():
    return block(turn=rotated)


@kind
def grouped_queries():
    return block(heads=4, groups=2)


@kind
def qk_norm():
    return block(norm=lambda t: t / t.square().mean(-1, keepdim=True).sqrt())


def gated(act):
    def forward(net, x):
        return net.down(act(net.gate(x)) * net.up(x))

    return Net(forward, gate=nn.Linear(5, 6), up=nn.Linear(5, 6), down=nn.Linear(6, 3)), x5()


@kind
def swiglu():
    return gated(F.silu)


@kind
def reglu():
    return gated(F.relu)


@kind
def tied_autoencoder():
    return Net(lambda net, x: F.relu(x @ net.w.T) @ net.w, w=nn.Parameter(torch.randn(4, 5))), x5()


@kind
def tied_embedding():
    def forward(net, tokens):
        return net.m(net.e(tokens)) @ net.e.weight.T

    return Net(forward, e=nn.Embedding(7, 5), m=nn.Linear(5, 5, bias=False)), (
        torch.randint(7, (3, 4)),
    )


@kind
def lora():
    def forward(net, x):
        return net.head(F.relu(net.base(x) + net.b(net.a(x))))

    net = Net(
        forward,
        base=nn.Linear(5, 6),
        a=nn.Linear(5, 3, bias=False),
        b=nn.Linear(3, 6, bias=False),
        head=nn.Linear(6, 2),
    )
    net.base.requires_grad_(False)
    return net, x5()


@kind
def relu_rnn():
    rnn = nn.RNN(5, 6, nonlinearity="relu", batch_first=True)
    return Net(lambda net, x: net.head(net.rnn(x)[0][:, -1]), rnn=rnn, head=nn.Linear(6, 2)), (
        torch.randn(3, 4, 5),
    )


@kind
def layer_scale():
    def forward(net, x):
        return x + net.scale * net.down(F.relu(net.up(x)))

    return Net(
        forward,
        up=nn.Linear(5, 6),
        down=nn.Linear(6, 5),
        scale=nn.Parameter(torch.randn(5)),
    ), x5()


@kind
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
    ), image()


@kind
def bert():
    from transformers import BertConfig, BertModel

    config = BertConfig(
        vocab_size=20, hidden_size=8, num_hidden_layers=2, num_attention_heads=2,
        intermediate_size=10, hidden_act="relu", layer_norm_eps=EPS, max_position_embeddings=8,
    )  # fmt: skip
    net = Net(
        lambda n, t: n.bert(t).last_hidden_state, bert=BertModel(config, add_pooling_layer=False)
    )
    return net.eval(), (torch.randint(1, 20, (3, 5)),)


@kind
def gpt2():
    from transformers import GPT2Config, GPT2LMHeadModel

    config = GPT2Config(
        vocab_size=20, n_embd=8, n_layer=2, n_head=2, n_positions=8, n_inner=10,
        activation_function="relu", layer_norm_epsilon=EPS, bos_token_id=1, eos_token_id=1,
    )  # fmt: skip
    net = Net(lambda n, t: n.gpt(t, use_cache=False).logits, gpt=GPT2LMHeadModel(config))
    return net.eval(), (torch.randint(20, (3, 5)),)
