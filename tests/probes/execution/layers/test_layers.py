import pytest
import torch
from torch import nn
from torch.nn import functional as F
from torch.nn.utils import parametrizations

from sigmascope.networks import UncentredBatchNorm
from sigmascope.probes.execution.layers import (
    Statisticians,
    channel_dim,
    is_matrix,
    layers,
    normalisers,
    standardised,
    statistics,
)


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
