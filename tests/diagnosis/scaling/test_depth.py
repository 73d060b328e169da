"""What holds when a model grows deeper, and who is in the way where it does not."""

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from sigmascope import Refusal
from sigmascope.diagnosis.scaling import depth as deep, widths
from sigmascope.diagnosis.scaling.results import CHANGED
from tests.fingerprints import differences, fingerprint

DEPTHS = (2, 4, 8, 16)
HOW = {"seeds": 4, "steps": 1, "batch_size": 64, "loss": "cross_entropy", "lr": 1e-3}
STREAM = "(residual stream)"
BRANCH = ("layers.*.down.weight", "layers.*.down.bias")


class Layer(nn.Module):
    """Adds to what it reads."""

    def __init__(self, n, times=1.0, skip=True):
        super().__init__()
        self.norm, self.up, self.down = nn.LayerNorm(n), nn.Linear(n, n), nn.Linear(n, n)
        self.times, self.skip = times, skip

    def forward(self, x):
        branch = self.times * self.down(torch.relu(self.up(self.norm(x))))
        return x + branch if self.skip else branch


class Net(nn.Module):
    """Layers between an input and a readout."""

    def __init__(self, depth, n=16, power=0.0, skip=True):
        super().__init__()
        self.inp, self.norm, self.out = nn.Linear(16, n), nn.LayerNorm(n), nn.Linear(n, 5)
        self.layers = nn.ModuleList(Layer(n, (depth / 2) ** -power, skip) for _ in range(depth))

    def forward(self, x):
        x = self.inp(x)
        for layer in self.layers:
            x = layer(x)
        return self.out(self.norm(x))


@pytest.fixture(scope="module")
def data():
    g = torch.Generator().manual_seed(0)
    x = torch.randn(64, 16, generator=g)
    return x, (x @ torch.randn(16, 5, generator=g)).argmax(1)


@pytest.fixture(scope="module")
def plain(data):
    return widths(Net, data=data, depths=(1, *DEPTHS), cure=True, **HOW | {"seeds": 3})


def test_layers_that_add_as_they_are_make_the_stream_grow_by_a_root_and_that_is_cured(plain):
    law = next(w for w in plain.weights if w.name == STREAM).laws["changed"].exponent
    assert law.low < 0.5 < law.high
    assert law.high - law.low < 0.6
    (first,) = plain.obstacles
    assert (first.name, first.cause, first.exponent) == (STREAM, "residual scale", 0.5)
    assert plain.initial == dict.fromkeys(BRANCH, -0.5)
    assert {plain.rates[n] for n in BRANCH} == {-1.0}  # a sum of L changes of one sign
    assert {w.verdict for w in plain.after} <= {"maximal", "cannot be told"}
    assert not plain.left
    kinds = {w.name: w.kind for w in plain.weights}
    assert kinds["inp.weight"] == "single"
    assert {kinds[n] for n in BRANCH} == {"repeated"}


@pytest.mark.parametrize(("power", "rate"), [(0.5, 0.5), (1.0, None)])
def test_scaled_by_a_root_rates_are_left_and_scaled_by_depth_nothing_is(data, power, rate):
    found = widths(lambda depth: Net(depth, 32, power), data=data, depths=DEPTHS, **HOW)
    assert not found.initial
    stream = next(w for w in found.weights if w.name == STREAM)
    assert stream.verdict == "maximal"
    assert stream.laws["changed"].nearest == 0.5 - power
    if rate is None:
        assert not found.obstacles
    else:
        assert {o.cause for o in found.obstacles} == {"rate"}
        assert {o.exponent for o in found.obstacles} == {rate}
        assert all(o.name.startswith("layers.*") for o in found.obstacles)
        assert len(found.rates) > 1


def test_without_skip_connections_it_says_so_and_what_becomes_of_the_rank(data):
    how = HOW | {"seeds": 1}
    found = widths(lambda depth: Net(depth, skip=False), data=data, depths=(2, 4, 8), **how)
    assert [o.cause for o in found.obstacles] == ["no skip connection"]
    assert not found.code
    ranks, factors = found.beside["rank of the last representation"], found.beside["layer factor"]
    assert ranks[-1] < 0.5 * ranks[0]
    assert factors[-1] > 10 * factors[0]
    assert f"{ranks[-1]:.3g}" in found.obstacles[0].says


def test_skip_connections_keep_rank_and_conditioning(plain):
    ranks, factors = plain.beside["rank of the last representation"], plain.beside["layer factor"]
    assert ranks[-1] > 0.5 * ranks[0]
    assert factors[-1] < 10 * factors[0]


class Attended(nn.Module):
    """Layers of torch's own, whose attention calls no projection as a layer."""

    def __init__(self, depth):
        super().__init__()
        self.inp, self.out = nn.Linear(4, 16), nn.Linear(16, 5)
        of = lambda: nn.TransformerEncoderLayer(
            16, 2, 32, dropout=0.1, batch_first=True, norm_first=True
        )
        self.parts = nn.ModuleList(of() for _ in range(depth))

    def forward(self, x):
        x = self.inp(x.view(len(x), 4, 4))
        for part in self.parts:
            x = part(x)
        return self.out(x.mean(1))


class Convolved(nn.Module):
    """Norms behind convolutions, in two stages."""

    class Block(nn.Module):
        def __init__(self, n):
            super().__init__()
            self.conv, self.norm = nn.Conv2d(n, n, 3, padding=1, bias=False), nn.BatchNorm2d(n)

        def forward(self, x):
            x += self.norm(self.conv(F.relu(x)))
            return x

    def __init__(self, depth):
        super().__init__()
        stage = lambda n: nn.Sequential(*[self.Block(n) for _ in range(depth)])
        self.stem, self.down = nn.Conv2d(1, 4, 3, padding=1), nn.Conv2d(4, 8, 3, 2, 1)
        self.stage1, self.stage2, self.out = stage(4), stage(8), nn.Linear(8, 5)

    def forward(self, x):
        x = self.stage2(self.down(self.stage1(self.stem(x.view(-1, 1, 4, 4)))))
        return self.out(x.mean((2, 3)))


@pytest.mark.parametrize(
    ("make", "writers"),
    [
        (
            Attended,
            {f"parts.*.{n}.{end}" for n in ("self_attn.out_proj", "linear2") for end in
             ("weight", "bias")},
        ),
        (Convolved, {f"stage{n}.*.norm.{end}" for n in (1, 2) for end in ("weight", "bias")}),
    ],
)  # fmt: skip
def test_who_writes_what_is_added_is_found_in_layers_of_every_make(data, make, writers):
    found = widths(make, data=data, depths=(1, 2, 4, 8), **HOW | {"seeds": 3})
    assert [o.cause for o in found.obstacles] == ["residual scale"]
    assert set(found.initial) == writers


@pytest.mark.parametrize(
    ("make", "how", "word"),
    [
        (lambda _: Net(2), {"depths": (2, 4)}, "another depth"),
        (lambda depth: Net(2, n=8 * depth), {"depths": (2, 4)}, "widths"),
        (Net, {"depths": (2,)}, "two or more"),
        (Net, {"depths": (0, 4)}, "two or more"),
        (Net, {"depths": (2, 4), "widths": (8, 16)}, "one width"),
        (lambda width: Net(width), {"depths": (2, 4), "widths": (8,)}, "depth"),
        (Net, {"depths": (2, 4), "field": "n_layer"}, "configuration"),
    ],
)
def test_what_cannot_be_compared_is_refused(data, make, how, word):
    with pytest.raises(Refusal, match=word):
        widths(make, data=data, **HOW, **how)


def test_a_width_may_be_given_beside(data):
    made = []

    def make(width, depth):
        made.append((width, depth))
        return Net(depth, n=width)

    found = widths(make, (8,), data, depths=(2, 4), **HOW | {"seeds": 1})
    assert set(made) == {(8, 2), (8, 4)}
    assert found.axis == "depth"


def test_what_is_made_and_what_is_random_is_left_as_found(data):
    kept = {depth: Net(depth) for depth in (2, 4)}
    before = fingerprint(models=kept, data=data)
    widths(kept.__getitem__, data=data, depths=(2, 4), **HOW | {"seeds": 1})
    assert not differences(before, fingerprint(models=kept, data=data))


class Turned(Layer):
    """The same sum, the other way round, and in place."""

    def forward(self, x):
        branch = self.down(torch.relu(self.up(self.norm(x))))
        branch += x
        return branch


def test_the_stream_is_told_from_what_is_added_in_either_order(data):
    def make(kind):
        def of(depth):
            net = Net(0)
            net.layers = nn.ModuleList(kind(16) for _ in range(depth))
            return net

        return of

    laws = []
    for kind in (Layer, Turned):
        found = widths(make(kind), data=data, depths=(2, 4), **HOW | {"seeds": 1})
        laws.append(next(w for w in found.weights if w.name == STREAM).laws["changed"])
    assert laws[0].exponent.value == pytest.approx(laws[1].exponent.value, rel=1e-4)


def test_what_is_added_to_nothing_has_no_share():
    zero, one = torch.zeros(4), torch.ones(4)
    assert deep._stream([(zero, one), (one, 1.5 * one)]) == {CHANGED: 0.5}
    assert deep._stream([(zero, one)]) == {}
