import itertools
import threading

import pytest
import torch
from torch import nn
from torch.nn import functional as F
from torch.nn.utils import parametrizations
from torch.utils._python_dispatch import TorchDispatchMode
from zoo import fresh

from sigmascope.models import layers as layers_of
from sigmascope.models.layers import (
    Call,
    Statisticians,
    _last_state,
    channel_dim,
    is_matrix,
    is_repeated,
    layers,
    module_name,
    normalisers,
    recording,
    rounding,
    standardised,
    statistics,
)
from sigmascope.models.networks import UncentredBatchNorm


@pytest.mark.parametrize(
    ("module", "shape", "dim"),
    [
        (nn.Conv2d(3, 4, 1), (2, 3, 5, 5), 1),
        (nn.BatchNorm1d(3), (2, 3), 1),
        (nn.BatchNorm1d(3), (2, 3, 7), 1),
        (nn.GroupNorm(1, 3), (2, 3, 7), 1),
        (nn.Linear(3, 4), (2, 7, 3), 2),
        (nn.LayerNorm(3), (2, 7, 3), 2),
    ],
)
def test_where_channels_stand(module, shape, dim):
    assert channel_dim(module, torch.ones(shape)) == dim


class Own(nn.Module):
    """A layer of the user's."""

    def __init__(self, inner=None):
        super().__init__()
        self.matrix, self.inner = nn.Parameter(torch.ones(3, 3)), inner


def test_layers_apply_a_weight_of_their_own():
    net = nn.ModuleDict(
        {
            "linear": parametrizations.orthogonal(nn.Linear(3, 3)),
            "attention": nn.MultiheadAttention(4, 2),
            "lstm": nn.LSTM(3, 4, 2),
            "norm": nn.LayerNorm((3, 3)),
            "own": Own(),
            "outer": Own(nn.Linear(3, 3)),
            "marked": Own(nn.Identity()),
            "act": nn.PReLU(3),
        }
    )
    assert list(layers(net)) == ["linear", "attention", "lstm", "own", "outer.inner", "marked"]
    assert list(normalisers(net)) == ["norm"]
    assert list(normalisers(nn.Sequential(nn.BatchNorm1d(3, affine=False)))) == []


def test_a_tied_layer_has_its_first_name():
    layer = nn.Linear(3, 3)
    assert list(layers(nn.Sequential(layer, nn.ReLU(), layer))) == ["0"]


@pytest.mark.parametrize(
    ("shape", "told"), [((3, 4), True), ((1, 4), False), ((4,), False), ((1, 3, 1, 2), True)]
)
def test_a_row_is_no_matrix(shape, told):
    assert is_matrix(torch.ones(shape)) == told


NORMS = {
    "layer": (nn.LayerNorm(6), (5, 6)),
    "rms": (nn.RMSNorm(6), (5, 4, 6)),
    "group": (nn.GroupNorm(2, 6), (5, 6, 4)),
    "instance": (nn.InstanceNorm1d(6, affine=True), (5, 6, 4)),
    "batch": (nn.BatchNorm1d(6), (5, 6)),
    "uncentred": (UncentredBatchNorm(6), (5, 6)),
}


@pytest.mark.parametrize("training", [True, False])
@pytest.mark.parametrize("name", NORMS)
def test_what_a_normaliser_multiplies_by_its_weight(name, training):
    module, shape = NORMS[name]
    g = torch.Generator().manual_seed(0)
    x = torch.randn(shape, generator=g) + 1
    kind = module.train(training)
    batch = training and name in ("batch", "uncentred")
    frozen = {kind: [statistics(kind, x)]} if batch else {}
    normal = standardised(kind, x, kind(x).detach(), frozen)
    with torch.no_grad():
        kind.weight.fill_(2.0)
        if getattr(kind, "bias", None) is not None:
            kind.bias.fill_(3.0)
        shift = 0.0 if getattr(kind, "bias", None) is None else 3.0
        torch.testing.assert_close(2 * normal + shift, kind(x))


class ChannelsFirst(nn.LayerNorm):
    def forward(self, x):
        return super().forward(x.movedim(1, -1)).movedim(-1, 1)


class ShiftedScale(nn.LayerNorm):
    def forward(self, x):
        return F.layer_norm(x, self.normalized_shape, 1 + self.weight, self.bias, self.eps)


class Renamed(nn.LayerNorm):
    pass


@pytest.mark.parametrize(
    ("kind", "shape", "same"),
    [
        (ChannelsFirst, (2, 4, 3, 3), False),
        (ChannelsFirst, (2, 4, 4, 4), False),  # the shapes fit, the numbers do not
        (ShiftedScale, (5, 4), False),
        (Renamed, (5, 4), True),
    ],
)
@pytest.mark.parametrize("dtype", [torch.float64, torch.float32, torch.float16, torch.bfloat16])
def test_a_normaliser_that_works_in_its_own_way_is_told_by_what_it_wrote(kind, shape, same, dtype):
    g = torch.Generator().manual_seed(0)
    x, norm = torch.randn(shape, generator=g).to(dtype), kind(4).to(dtype)
    assert (standardised(norm, x, norm(x).detach(), {}) is not None) == same


def test_statistics_that_were_seen_are_replayed_call_by_call():
    norm = nn.BatchNorm1d(3).train()
    with torch.no_grad():
        norm.weight.fill_(2.0)
        norm.bias.fill_(1.0)
    seen, g = Statisticians(), torch.Generator().manual_seed(0)
    batches = [k + k * torch.randn(8, 3, generator=g) for k in (1, 5)]
    wrote = [norm(x).detach() for x in batches]
    for x, y in zip(batches, wrote, strict=True):
        assert seen.rewrite(norm, x, y) is y
    for _ in "ab":
        seen.rewind()
        for x, y in zip(batches, wrote, strict=True):
            torch.testing.assert_close(seen.rewrite(norm, x[:1], y[:1]).detach(), y[:1])
    assert seen.rewrite(nn.Linear(3, 3), batches[0], wrote[0]) is wrote[0]


# ------------------------------------------------------------------------------
# What hooks hear, and leave behind.


@pytest.mark.parametrize("kind", [nn.RNN, nn.GRU, nn.LSTM])
@pytest.mark.parametrize(
    ("first", "both", "batched"), list(itertools.product([True, False], repeat=3))
)
def test_the_last_state_is_read_off_the_sequence(kind, first, both, batched):
    """Whichever axis is time, and from both ends where it is read both ways."""
    net = kind(3, 4, num_layers=2, batch_first=first, bidirectional=both)
    g = torch.Generator().manual_seed(0)
    sequence, state = net(torch.randn(*((5, 7, 3) if batched else (7, 3)), generator=g))
    found = _last_state(net, 2 * sequence, state)
    h, last = (s[0] if isinstance(s, tuple) else s for s in (state, found))
    ends = 2 if both else 1
    assert torch.equal(last[:-ends], h[:-ends])
    assert torch.allclose(last[-ends:], 2 * h[-ends:])


def test_calls_of_another_thread_are_not_recorded():
    net, x = nn.Linear(3, 3), torch.randn(2, 3)
    with recording({"it": net}) as tape:
        net(x)
        other = threading.Thread(target=lambda: [net(x + 1) for _ in range(5)])
        other.start()
        other.join()
    assert len(tape.calls) == 1


@pytest.mark.parametrize(
    ("site", "name", "repeated"),
    [("a", "a", False), ("a#2", "a", True), ("a#1", "a", False), ("a#2#1", "a#2", False)],
)
def test_a_site_is_a_module_and_the_number_of_its_call(site, name, repeated):
    assert (module_name(site), is_repeated(site)) == (name, repeated)


def test_calls_are_numbered_also_of_modules_whose_names_look_so():
    net = nn.ModuleDict({"a": nn.Linear(3, 3), "a#2": nn.Linear(3, 3)})
    with recording(dict(net.items())) as tape:
        x = torch.ones(2, 3)
        for module in (net["a"], net["a#2"], net["a"]):
            x = module(x)
    assert [c.site for c in tape.calls] == ["a", "a#2#1", "a#2"]
    assert [c.module for c in tape.calls] == [net["a"], net["a#2"], net["a"]]


def test_what_was_written_survives_an_activation_in_place():
    net = nn.Sequential(nn.Linear(3, 3), nn.ReLU(inplace=True))
    with recording({"0": net[0]}) as tape, torch.no_grad():
        out = net(torch.linspace(-9, 9, 27).view(9, 3))
    assert bool((tape.calls[0].output < 0).any())
    assert torch.equal(out, tape.calls[0].output.relu())


def test_an_input_that_was_overwritten_is_known():
    layer, x = nn.Linear(3, 3), torch.ones(2, 3)
    with recording({"it": layer}) as held, recording({"it": layer}, copy=True) as copied:
        layer(x)
    assert not held.calls[0].spoiled
    x.zero_()
    assert held.calls[0].spoiled
    assert not copied.calls[0].spoiled
    assert copied.calls[0].input.tolist() == [[1, 1, 1]] * 2


def test_an_output_may_be_rewritten_and_no_hook_stays():
    layer = nn.Linear(3, 3)
    with recording({"it": layer}, rewrite=lambda m, x, y: 0 * y + 7) as tape, torch.no_grad():
        assert layer(torch.ones(2, 3)).tolist() == [[7, 7, 7]] * 2
        tape.listening = False
        layer(torch.ones(2, 3))
    assert len(tape.calls) == 1
    with pytest.raises(RuntimeError, match="mat1"), recording({"it": layer}):
        layer(torch.ones(2, 4))
    assert not layer._forward_hooks


def test_keywords_and_tuples_are_read():
    attention = nn.MultiheadAttention(4, 1, batch_first=True)
    q = torch.randn(2, 5, 4, generator=torch.Generator().manual_seed(0))
    with recording({"it": attention}) as tape, torch.no_grad():
        out, weights = attention(query=q, key=q + 1, value=q)
    assert torch.equal(tape.calls[0].input, q)
    assert torch.equal(tape.calls[0].output, out)
    assert weights.shape == (2, 5, 5)


# ------------------------------------------------------------------------------
# What rounding leaves of a product.


DTYPES = [torch.float64, torch.float32, torch.float16, torch.bfloat16]


@pytest.mark.parametrize("width", [3, 64, 1024, 8192])
@pytest.mark.parametrize("dtype", DTYPES)
def test_products_are_within_it_of_the_sum_of_their_sizes(dtype, width):
    x, W, b = (torch.randn(*s, generator=fresh()).to(dtype) for s in ((9, width), (8, width), (8,)))
    exact = F.linear(x.double(), W.double(), b.double())
    sizes = F.linear(x.double().abs(), W.double().abs(), b.double().abs())
    assert ((F.linear(x, W, b).double() - exact).abs() <= rounding(dtype, width + 2) * sizes).all()


@pytest.mark.parametrize("dtype", DTYPES)
def test_no_number_of_steps_that_a_layer_has_lets_anything_pass(dtype):
    assert rounding(dtype, 64 * 8192**0.5) < 0.1


# ------------------------------------------------------------------------------
# Whether a layer of a class of its own is linear is told by its numbers, once a call.


class Stored(nn.Module):
    """Multiplies by a matrix that is stored as `[in, out]`, and shifts, or does something else."""

    def __init__(self, wide, *, turned=True, bias=True, then=lambda y: y, reads=3):
        super().__init__()
        g = torch.Generator().manual_seed(0)
        shape = (reads, wide) if turned else (wide, reads)
        self.kernel = nn.Parameter(torch.randn(shape, generator=g))
        self.shift = nn.Parameter(torch.randn(wide, generator=g)) if bias else None
        self.turned, self.then = turned, then

    def forward(self, x):
        y = x.to(self.kernel) @ (self.kernel if self.turned else self.kernel.mT)
        return self.then(y if self.shift is None else y + self.shift)


def call_of(module, x):
    return Call("a", module, x, module(x), x._version)


@pytest.mark.parametrize("wide", [3, 5])  # of a square matrix the shape tells nothing
@pytest.mark.parametrize("turned", [True, False])
@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_a_matrix_is_found_whichever_way_it_is_stored(wide, turned, bias, dtype):
    layer = Stored(wide, turned=turned, bias=bias).to(dtype)
    x = torch.randn(2, 70, 3, generator=torch.Generator().manual_seed(1)).to(dtype)
    call = call_of(layer, x)
    assert call.is_linear
    assert call.is_turned is turned
    others = torch.relu, lambda y: 1.1 * y, lambda y: y.roll(1, 0), lambda y: y[:, :20]
    for then in others:
        other = Stored(wide, turned=turned, bias=bias, then=then).to(dtype)
        assert not call_of(other, x).is_linear
        assert call_of(other, x).is_turned is None


def test_a_wide_layer_that_is_off_by_a_tenth_is_not_linear():
    x = torch.randn(8, 600, generator=torch.Generator().manual_seed(1))
    assert call_of(Stored(5, reads=600), x).is_linear
    assert call_of(Stored(5, reads=600), x.half()).is_linear  # of another format than the weights
    assert not call_of(Stored(5, reads=600, then=lambda y: 1.1 * y), x).is_linear


def test_a_weight_is_copied_to_double_precision_by_two_million_entries():
    made = []

    class Watch(TorchDispatchMode):
        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            out = func(*args, **(kwargs or {}))
            if isinstance(out, torch.Tensor) and out.dtype == torch.float64:
                made.append(out.numel())
            return out

    layer = Stored(2200, turned=False, reads=1000)
    call = call_of(layer, torch.ones(2, 1000, dtype=torch.half))
    with torch.no_grad(), Watch():
        assert call.is_linear
    assert max(made) == 2**21 // 1000 * 1000


def test_what_owns_more_than_a_matrix_and_a_vector_or_reads_whole_numbers_is_not_tried():
    assert not call_of(Stored(5), torch.ones(2, 3, dtype=torch.long)).is_linear
    more = Stored(5)
    more.rest = nn.Parameter(torch.ones(2, 2, 2))
    assert not call_of(more, torch.ones(2, 3)).is_linear


def test_kinds_that_are_known_are_linear_whatever_they_wrote_and_normalisers_too():
    x = torch.ones(2, 3)
    for module in (nn.Linear(3, 4), nn.BatchNorm1d(3), nn.LayerNorm(3)):
        assert Call("a", module, x, torch.zeros(2, 3), 0).is_linear
    for module in (nn.ReLU(), nn.Bilinear(3, 3, 2), nn.PReLU()):
        assert not Call("a", module, x, x, 0).is_linear


class Rows(nn.Embedding):
    def forward(self, ids):
        return super().forward(ids if ids.shape[-1] == 2 else ids.flip(-1))


def test_an_embedding_of_a_class_of_its_own_must_write_the_rows_it_was_asked_for():
    table = Rows(5, 4)
    assert call_of(table, torch.tensor([[0, 4]])).is_linear
    assert not call_of(table, torch.tensor([[0, 1, 4]])).is_linear
    for odd in (torch.tensor([[0, -1]]), torch.tensor([[0, 5]]), torch.tensor([[0.0, 4.0]])):
        assert not Call("a", table, odd, table(torch.tensor([[0, 4]])), 0).is_linear


def test_a_layer_is_tried_once_a_call(monkeypatch):
    tried = []
    plain = layers_of.matrix_and_vector
    monkeypatch.setattr(layers_of, "matrix_and_vector", lambda m: tried.append(1) or plain(m))
    call = call_of(Stored(3), torch.ones(2, 3))
    assert [call.is_linear, call.is_linear, call.is_turned] == [True, True, True]
    assert len(tried) == 1
