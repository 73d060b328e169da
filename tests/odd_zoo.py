"""Networks that change what they should not, or hold what cannot be copied or differentiated.

`ODD[name]()` is like `models_zoo.MODELS[name]()`: a fresh (module, batch), the same every time.
What they do is odd, but each trains or infers in somebody's code. `EVERY` has both.
"""

import atexit
import random
import tempfile
import threading
import types
import warnings
from collections import Counter, deque
from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np
import torch
from models_zoo import MODELS as USUAL, Net, images, rows, tokens
from torch import nn
from torch.nn import functional as F
from torch.nn.utils import parametrizations, prune
from torch.utils.checkpoint import checkpoint

ODD = {}


FILE = tempfile.TemporaryFile()  # noqa: SIM115 (open as long as the tests run)
atexit.register(FILE.close)


def model(function):
    """List a function as a model that is built with torch's global generator at 0."""

    def build():
        with torch.random.fork_rng(devices=[]), warnings.catch_warnings():
            warnings.simplefilter("ignore", FutureWarning)  # old ways still have users
            torch.default_generator.manual_seed(0)
            return function()

    ODD[function.__name__.replace("_", "-")] = build
    return function


def body(inputs=6, width=8, outputs=3):
    return nn.Sequential(nn.Linear(inputs, width), nn.ReLU(), nn.Linear(width, outputs))


class Odd(nn.Module):
    """A small network with something that happens before it runs."""

    def __init__(self, before=None, **attributes):
        super().__init__()
        self.body = body()
        self.before = before
        for name, value in attributes.items():
            setattr(self, name, value)

    def forward(self, x):
        if self.before is not None:
            found = self.before(self, x)
            x = x if found is None else found
        return self.body(x)


def odd(before=None, **attributes):
    return Odd(before, **attributes), rows(6)


# Weights that change while the model runs


@model
def embedding_max_norm():
    layers = (nn.Embedding(23, 4, max_norm=0.5), nn.Flatten(), nn.Linear(28, 3))
    return nn.Sequential(*layers), tokens()


@model
def embedding_bag_max_norm():
    return nn.Sequential(nn.EmbeddingBag(23, 6, max_norm=0.5), nn.Linear(6, 3)), tokens()


@model
def weights_clamped_by_data():
    def before(net, x):
        net.body[0].weight.data.clamp_(-0.1, 0.1)

    return odd(before)


@model
def weights_moved_without_grad():
    def before(net, x):
        with torch.no_grad():
            net.body[0].weight.mul_(0.99)

    return odd(before)


@model
def weights_exchanged_by_data():
    def before(net, x):
        net.body[0].weight.data = net.body[0].weight.data * 0.9

    return odd(before)


@model
def weights_written_through_numpy():
    def before(net, x):
        net.body[0].bias.detach().numpy()[:] += 0.01

    return odd(before)


@model
def weights_average():
    def before(net, x):
        with torch.no_grad():
            for slow, fast in zip(net.teacher.parameters(), net.body.parameters(), strict=True):
                slow.lerp_(fast, 0.1)

    return odd(before, teacher=body())


@model
def weights_replaced():
    def before(net, x):
        net.body[0].weight = nn.Parameter(net.body[0].weight.detach() * 0.9)

    return odd(before)


@model
def weights_frozen_in_forward():
    def before(net, x):
        net.body[0].weight.requires_grad_(False)

    return odd(before)


@model
def gradients_zeroed_in_forward():
    net, x = odd(lambda net, x: net.zero_grad(set_to_none=False))
    net.body(x).sum().backward()
    return net, x


@model
def gradients_dropped_in_forward():
    net, x = odd(lambda net, x: net.zero_grad(set_to_none=True))
    net.body(x).sum().backward()
    return net, x


@model
def backward_in_forward():
    def before(net, x):
        with torch.enable_grad():
            net.body(x.detach()).square().mean().backward()

    return odd(before)


@model
def optimizer_in_forward():
    def before(net, x):
        with torch.enable_grad():
            net.inner(x.detach()).square().mean().backward()
        net.by.step()
        net.by.zero_grad()

    inner = body()
    return odd(before, inner=inner, by=torch.optim.Adam(inner.parameters()))


@model
def parameter_hooks_added():
    return odd(lambda net, x: net.body[0].weight.register_hook(lambda g: g) and None)


@model
def shared_storage():
    def forward(net, x):
        return F.linear(F.relu(net.layer(x)), net.part)

    layer = nn.Linear(6, 8)
    part = nn.Parameter(layer.weight.data.view(-1)[:24].view(3, 8))  # the same memory
    return Net(forward, layer=layer, part=part), rows(6)


@model
def parameters_are_views():
    flat = torch.randn(6 * 8 + 8 * 3) / 3
    net = nn.Sequential(nn.Linear(6, 8, bias=False), nn.ReLU(), nn.Linear(8, 3, bias=False))
    net[0].weight.data = flat[:48].view(8, 6)
    net[2].weight.data = flat[48:].view(3, 8)
    return net, rows(6)


# Attributes


@model
def counter():
    def before(net, x):
        net.calls += 1

    return odd(before, calls=0)


@model
def dict_of_numbers():
    def before(net, x):
        net.seen["count"] += 1
        net.seen["max"] = float(x.max())

    return odd(before, seen={"count": 0})


@model
def list_grows():
    return odd(lambda net, x: net.history.append(x.mean()), history=[])


@model
def nested_containers():
    def before(net, x):
        net.log["a"]["b"].append(1)
        net.log["s"].add(len(net.log["a"]["b"]))
        net.log["q"].append(x.detach())
        net.log["c"]["calls"] += 1

    return odd(before, log={"a": {"b": []}, "s": set(), "q": deque(maxlen=3), "c": Counter()})


@model
def plain_tensor_state():
    def before(net, x):
        net.state.add_(x.detach().mean(0))

    return odd(before, state=torch.zeros(6))


@model
def plain_tensor_on_tape():
    def before(net, x):
        net.memory = 0.5 * net.memory + net.body[0](x).mean()

    return odd(before, memory=torch.zeros(()))


@model
def numpy_state():
    def before(net, x):
        net.total += x.detach().numpy().sum()

    return odd(before, total=np.zeros(1))


@dataclass(slots=True)
class Slotted:
    count: int = 0


@dataclass
class Cache:
    tensors: list = field(default_factory=list)
    count: int = 0


@model
def object_state():
    def before(net, x):
        net.cache.count += 1
        net.cache.tensors.append(x.detach())
        net.slotted.count += 1

    return odd(before, cache=Cache(), slotted=Slotted())


class Counting(nn.Module):
    calls = 0
    seen: ClassVar[list] = []

    def __init__(self):
        super().__init__()
        self.body = body()

    def forward(self, x):
        type(self).calls += 1
        self.seen.append(1)
        return self.body(x)


@model
def class_counter():
    return Counting(), rows(6)


@model
def lazy_attribute():
    def before(net, x):
        if not hasattr(net, "mask"):
            net.mask = torch.ones(6)
            net.register_buffer("lazily", torch.zeros(2))

    return odd(before)


@model
def lazy_layer():
    def before(net, x):
        if not hasattr(net, "extra"):
            net.extra = nn.Linear(6, 6)
        return net.extra(x)

    return odd(before)


@model
def buffer_registered_again():
    def before(net, x):
        net.register_buffer("mean", x.detach().mean(0))

    net, x = odd(before)
    net.register_buffer("mean", torch.zeros(6))
    return net, x


@model
def forward_replaced():
    net = body()
    original = net.forward

    def forward(self, x):
        return 2 * original(x)

    net.forward = types.MethodType(forward, net)
    return net, rows(6)


@model
def forward_closure():
    net = body()
    net.forward = lambda x: net[2](torch.tanh(net[0](x)))
    return net, rows(6)


@model
def hidden_modules():
    return odd(lambda net, x: net.teachers[0](x).sum() * 0 + x, teachers=[body()])


# Modes, hooks, settings, random states


@model
def training_toggled():
    return odd(lambda net, x: net.train(not net.training) and None)


@model
def hook_removes_itself():
    net = body()

    def once(module, args, output):
        handle.remove()

    handle = net[0].register_forward_hook(once)
    return net, rows(6)


@model
def hooks_grow():
    return odd(lambda net, x: net.body.register_forward_hook(lambda *_: None) and None)


@model
def hook_counts():
    net = body()
    net.count = 0

    def count(module, args):
        module.count += 1

    net.register_forward_pre_hook(count)
    return net, rows(6)


@model
def seeds_torch():
    return odd(lambda net, x: torch.manual_seed(0) and None)


@model
def seeds_numpy_and_python():
    def before(net, x):
        np.random.seed(0)
        random.seed(0)

    return odd(before)


@model
def draws_everywhere():
    def before(net, x):
        return x + 0.01 * (torch.rand(()) + np.random.rand() + random.random())

    return odd(before)


@model
def own_generators():
    def before(net, x):
        net.python.random()
        net.numpy.random()
        return x + 0.01 * torch.rand(x.shape, generator=net.source)

    return odd(
        before,
        source=torch.Generator().manual_seed(1),
        numpy=np.random.default_rng(1),
        python=random.Random(1),
    )


@model
def grad_mode_left_off():
    def forward(net, x):
        out = net.body(x)
        torch.set_grad_enabled(False)
        return out

    return Net(forward, body=body()), rows(6)


@model
def grad_mode_off_before():
    return odd(lambda net, x: torch.set_grad_enabled(False) and None)


@model
def default_dtype_left():
    return odd(lambda net, x: torch.set_default_dtype(torch.float64))


@model
def deterministic_left():
    return odd(lambda net, x: torch.use_deterministic_algorithms(True, warn_only=True))


@model
def settings_left():
    def before(net, x):
        torch.backends.mha.set_fastpath_enabled(not torch.backends.mha.get_fastpath_enabled())
        torch.set_float32_matmul_precision("high")
        torch.backends.cudnn.benchmark = True
        np.seterr(divide="raise")

    return odd(before)


# Reparametrised, pruned, tied


@model
def old_weight_norm():
    return nn.Sequential(nn.utils.weight_norm(nn.Linear(6, 8)), nn.ReLU(), nn.Linear(8, 3)), rows(6)


@model
def old_spectral_norm():
    layer = nn.utils.spectral_norm(nn.Linear(6, 8))
    return nn.Sequential(layer, nn.ReLU(), nn.Linear(8, 3)), rows(6)


@model
def old_spectral_norm_used():
    layer = nn.utils.spectral_norm(nn.Conv2d(1, 4, 3))
    net = nn.Sequential(layer, nn.ReLU(), nn.Flatten(), nn.Linear(144, 3))
    x = images()
    net(x)
    return net, x


@model
def pruned():
    net = body()
    prune.l1_unstructured(net[0], "weight", amount=0.3)
    prune.random_structured(net[2], "weight", amount=0.5, dim=1)
    net(rows(6))
    return net, rows(6)


@model
def orthogonal():
    layer = parametrizations.orthogonal(nn.Linear(6, 6))
    return nn.Sequential(layer, nn.ReLU(), nn.Linear(6, 3)), rows(6)


# What cannot be copied


@model
def holds_locks():
    return odd(lock=threading.Lock(), rlock=threading.RLock(), event=threading.Event())


@model
def holds_a_lock_deep():
    return odd(
        store={"locks": [threading.Lock()], "cache": types.SimpleNamespace(lock=threading.RLock())}
    )


@model
def holds_thread_local():
    found = threading.local()
    found.count = 0

    def before(net, x):
        net.local.count += 1

    return odd(before, local=found)


@model
def holds_a_file():
    return odd(file=FILE)


@model
def holds_iterator_and_module():
    return odd(numbers=(i for i in range(3)), package=np)


class Uncopyable:
    def __reduce_ex__(self, protocol):
        raise TypeError("cannot pickle this connection")


@model
def holds_the_uncopyable():
    return odd(connection=Uncopyable())


# Gradients that stop


@model
def no_grad_inside():
    def forward(net, x):
        with torch.no_grad():
            h = net.first(x)
        return net.second(F.relu(h))

    return Net(forward, first=nn.Linear(6, 8), second=nn.Linear(8, 3)), rows(6)


@model
def no_grad_whole():
    class Frozen(nn.Module):
        def __init__(self):
            super().__init__()
            self.body = body()

        @torch.no_grad()
        def forward(self, x):
            return self.body(x)

    return Frozen(), rows(6)


@model
def detached_output():
    return Net(lambda net, x: net.body(x).detach(), body=body()), rows(6)


@model
def inference_mode_inside():
    def forward(net, x):
        with torch.inference_mode():
            return net.body(x)

    return Net(forward, body=body()), rows(6)


@model
def reentrant_checkpoint():
    def forward(net, x):
        return net.readout(checkpoint(net.body, x, use_reentrant=True))

    layers = nn.Sequential(nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 8), nn.Tanh())
    return Net(forward, body=layers, readout=nn.Linear(8, 3)), rows(6)


@model
def vmapped():
    return Net(lambda net, x: torch.vmap(net.body)(x), body=body()), rows(6)


@model
def constant_output():
    return Net(lambda net, x: torch.ones(len(x), 3), body=body()), rows(6)


@model
def constant_output_with_grad():
    return Net(
        lambda net, x: net.bias.expand(len(x), 3) + 0, body=body(), bias=nn.Parameter(torch.ones(3))
    ), rows(6)


@model
def zero_weights():
    net = body()
    for p in net.parameters():
        nn.init.zeros_(p)
    return net, rows(6)


class OwnBackward(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x.sign()

    @staticmethod
    def backward(ctx, grad):
        return grad


@model
def straight_through():
    return Net(
        lambda net, x: net.last(OwnBackward.apply(net.first(x))),
        first=nn.Linear(6, 8),
        last=nn.Linear(8, 3),
    ), rows(6)


# Number formats, sizes and layouts


@model
def sparse_embedding():
    layers = (nn.Embedding(23, 4, sparse=True), nn.Flatten(), nn.Linear(28, 3))
    return nn.Sequential(*layers), tokens()


@model
def sparse_weight():
    def forward(net, x):
        return net.last(F.relu(torch.sparse.mm(net.weight, x.T).T))

    weight = nn.Parameter((torch.rand(8, 6) * (torch.rand(8, 6) > 0.5)).to_sparse())
    return Net(forward, weight=weight, last=nn.Linear(8, 3)), rows(6)


@model
def float8_weight():
    def forward(net, x):
        return net.last(F.relu(F.linear(x, net.weight.to(x.dtype))))

    weight = nn.Parameter(torch.randn(8, 6).to(torch.float8_e4m3fn), requires_grad=False)
    return Net(forward, weight=weight, last=nn.Linear(8, 3)), rows(6)


@model
def huge_weights():
    net = body()
    net[0].weight.data.mul_(1e30)
    return net, rows(6)


@model
def tiny_weights():
    net = body()
    net[0].weight.data.mul_(1e-38)
    return net, rows(6)


@model
def complex_weights():
    def forward(net, x):
        return net.last((x.to(torch.complex64) @ net.weight).abs())

    weight = nn.Parameter(torch.randn(6, 8, dtype=torch.complex64))
    return Net(forward, weight=weight, last=nn.Linear(8, 3)), rows(6)


@model
def mixed_formats():
    parts = {"first": nn.Linear(6, 8, dtype=torch.float64), "last": nn.Linear(8, 3)}
    return Net(lambda n, x: n.last(F.relu(n.first(x.double()).float())), **parts), rows(6)


@model
def names_with_signs():
    net = nn.Sequential()
    for name, layer in {
        "a#b": nn.Linear(6, 8),
        "c d[0]": nn.ReLU(),
        "é(x)": nn.Linear(8, 8),
        "e#2": nn.Linear(8, 3),
    }.items():
        net.add_module(name, layer)
    return net, rows(6)


@model
def names_like_second_calls():
    def forward(net, x):
        first, second = net._modules["a"], net._modules["a#2"]
        return net.last(second(torch.tanh(first(torch.tanh(first(x))))))

    net = Net(forward, a=nn.Linear(6, 6), last=nn.Linear(8, 3))
    net.add_module("a#2", nn.Linear(6, 8))
    return net, rows(6)


# Inputs


@model
def input_relu_in_place():
    return nn.Sequential(nn.ReLU(inplace=True), nn.Linear(6, 8), nn.Tanh(), nn.Linear(8, 3)), rows(
        6
    )


@model
def input_added_to():
    def forward(net, x):
        x += 1
        return net.body(x)

    return Net(forward, body=body()), rows(6)


@model
def input_scaled_by_data():
    def forward(net, x):
        x.data.mul_(0.5)
        return net.body(x)

    return Net(forward, body=body()), rows(6)


@model
def inputs_of_a_mapping_changed():
    def forward(net, x, mask):
        x.mul_(mask)
        mask.zero_()
        return net.body(x)

    return Net(forward, body=body()), {"x": rows(6), "mask": torch.ones(8, 6)}


@model
def inputs_of_a_tuple_changed():
    def forward(net, a, b):
        a.add_(b)
        b.zero_()
        return net.body(a)

    return Net(forward, body=body()), (rows(6), rows(6))


@model
def token_ids_changed():
    def forward(net, ids):
        ids.clamp_(max=10)
        ids[:, 0] = 1
        return net.body(ids)

    layers = nn.Sequential(nn.Embedding(23, 4), nn.Flatten(), nn.Linear(28, 3))
    return Net(forward, body=layers), tokens()


@model
def input_with_gradient():
    net, x = body(), rows(6).requires_grad_()
    net(x).sum().backward()
    net.zero_grad()
    return net, x


@model
def same_tensor_twice():
    def forward(net, a, b):
        a.add_(1)
        return net.body(a + b)

    x = rows(6)
    return Net(forward, body=body()), (x, x)


# State that is written behind the last weight


@model
def ends_in_batch_statistics():
    return nn.Sequential(body(), nn.BatchNorm1d(3, affine=False)), rows(6)


@model
def counts_behind_the_last_weight():
    def forward(net, x):
        z = net.body(x)
        net.seen.add_(len(x))
        net.mean.lerp_(z.detach().mean(0), 0.1)
        return z.tanh()

    net = Net(forward, body=body())
    net.register_buffer("seen", torch.zeros(()))
    net.register_buffer("mean", torch.zeros(3))
    return net, rows(6)


@model
def observes_behind_the_last_weight():
    class Observed(nn.Module):
        """As quantisers do: a range that grows, and rounding to steps of it."""

        def __init__(self):
            super().__init__()
            self.body = body()
            self.register_buffer("most", torch.full((), 1e-3))

        def forward(self, x):
            z = self.body(x)
            self.most.copy_(torch.maximum(self.most, z.detach().abs().max()))
            step = self.most / 127
            return z + ((z / step).round() * step - z).detach()

    return Observed(), rows(6)


# Calls that no hook can read


@model
def vmapped_by_hand():
    def forward(net, x):
        return torch.func.vmap(lambda row: net.b(net.a(row).tanh()))(x)

    return Net(forward, a=nn.Linear(6, 8), b=nn.Linear(8, 3)), rows(6)


@model
def an_ensemble_of_stacked_weights():
    class Ensemble(nn.Module):
        def __init__(self):
            super().__init__()
            self.members = nn.ModuleList(body() for _ in range(3))

        def forward(self, x):
            shared, buffers = torch.func.stack_module_state([*self.members])
            one = lambda p, b: torch.func.functional_call(self.members[0], (p, b), (x,))
            return torch.func.vmap(one)(shared, buffers).mean(0)

    return Ensemble(), rows(6)


@model
def gradients_inside():
    def forward(net, x):
        slope = torch.func.grad(lambda row: net.a(row).tanh().sum())
        return net.b(torch.func.vmap(slope)(x))

    return Net(forward, a=nn.Linear(6, 8), b=nn.Linear(6, 3)), rows(6)


# Layers that read what comes from nothing in the batch


@model
def learned_queries():
    class Queries(nn.Module):
        def __init__(self):
            super().__init__()
            self.latents = nn.Parameter(torch.randn(3, 6) * 1e-3)
            self.q, self.q2 = nn.Linear(6, 6), nn.Linear(6, 6)
            self.k, self.v, self.o = nn.Linear(6, 6), nn.Linear(6, 6), nn.Linear(6, 3)

        def forward(self, x):
            q = self.q2(self.q(self.latents.expand(len(x), -1, -1)).tanh())
            return self.o(F.scaled_dot_product_attention(q, self.k(x), self.v(x)).mean(1))

    return Queries(), torch.randn(5, 4, 6)


@model
def a_first_state_of_zeros():
    class Loop(nn.Module):
        def __init__(self):
            super().__init__()
            self.w, self.u, self.o = nn.Linear(6, 6), nn.Linear(6, 6), nn.Linear(6, 3)

        def forward(self, x):
            z = torch.zeros_like(x)
            for _ in range(3):
                z = (self.w(z) + self.u(x)).tanh()
            return self.o(z)

    return Loop(), rows(6)


@model
def packed_sequences():
    class Packed(nn.Module):
        def __init__(self):
            super().__init__()
            self.rnn, self.o = nn.GRU(6, 4, batch_first=True), nn.Linear(4, 3)

        def forward(self, x, n):
            packed = nn.utils.rnn.pack_padded_sequence(x, n, True, enforce_sorted=False)
            return self.o(self.rnn(packed)[1][-1])

    return Packed(), (torch.randn(5, 4, 6), torch.tensor([4, 2, 3, 1, 4]))


EVERY = {**USUAL, **ODD}
