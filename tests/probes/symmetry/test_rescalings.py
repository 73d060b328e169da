"""What may be rescaled, on operations that are easily got wrong."""

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from sigmascope.gate import Refusal
from sigmascope.probes.symmetry import Passed, symmetries
from tests.models_zoo import Net


def hidden(between, a=4, b=6, read=6, x=None):
    """A linear layer, something, a linear layer; the families found between them."""
    net = Net(lambda n, x: n.b(between(n.a(x))), a=nn.Linear(a, b), b=nn.Linear(read, 2))
    x = torch.randn(5, a, generator=torch.Generator().manual_seed(0)) if x is None else x
    found = symmetries(net.double(), x)
    for family in found.scalings:
        assert {p.tensor for p in family.parts} == {"b.weight", "a.weight", "a.bias"}
    return found


def in_place(h):
    h = h * 1.0
    h.relu_()
    h.mul_(2.0)
    return h


def sliced_writes(h):
    out = torch.zeros_like(h)
    out[:, :3] = h[:, :3]
    out[:, 3:] = 2 * h[:, 3:]
    return out


KEPT = {
    "relu": (F.relu, 6),
    "in place": (in_place, 6),
    "writes into slices": (sliced_writes, 6),
    "flip": (lambda h: h.flip(1), 6),
    "chosen": (lambda h: h[:, [2, 0, 1, 5, 4, 3]], 6),
    "added to itself": (lambda h: h + h, 6),
    "added to its mirror image": (lambda h: h + h.flip(1), 3),
    "a clamp that is a relu": (lambda h: h.clamp(min=0), 6),
    "a quotient": (lambda h: h / (h.square().mean(1, keepdim=True) + 1e-30).sqrt() * h, 1),
    "masked": (lambda h: h.masked_fill(torch.arange(6) % 2 == 0, 0.0), 6),
    "where": (lambda h: torch.where(h > 1e9, torch.zeros_like(h), h), 0),
    "square root of squares": (lambda h: h.square().sqrt(), 6),
    "two of three": (lambda h: torch.stack([h, 2 * h])[1], 6),
    "the larger of two": (lambda h: torch.maximum(h, 2 * h), 0),
    "softplus": (F.softplus, 0),
    "softmax": (lambda h: h.softmax(1), 0),
    "a constant added": (lambda h: h + 0.5, 0),
    "nothing added": (lambda h: h + 0, 6),
    "clamped from both sides": (lambda h: h.clamp(-0.1, 0.1), 0),
    "a branch on its value": (lambda h: h if float(h.detach().sum()) > -1e9 else -h, 0),
    "sorted": (lambda h: h.sort(1).values, 0),
    "rounded down": (lambda h: h.div(0.1, rounding_mode="floor"), 0),
    "recast": (lambda h: h.float().double(), 6),
}


@pytest.mark.parametrize("name", KEPT)
def test_how_many_units_may_be_rescaled(name):
    between, units = KEPT[name]
    found = hidden(between)
    assert sum(f.units for f in found.scalings) == units, found.fixed


def test_units_that_are_treated_alike_may_be_mixed():
    (family,) = hidden(lambda h: 3 * h).scalings
    assert bool(family.mask.all())
    assert family.passed == 0
    (scaled,) = hidden(lambda h: h * torch.tensor([1.0, 1, 2, 2, 2, 3], dtype=h.dtype)).scalings
    assert scaled.mask.sum(1).tolist() == [2, 2, 3, 3, 3, 1]
    assert scaled.passed == Passed.DATA


def test_channels_flattened_with_their_positions_are_one_unit_each():
    net = nn.Sequential(nn.Conv2d(1, 3, 2), nn.Flatten(), nn.Linear(3 * 9, 2))
    (family,) = symmetries(net, torch.randn(2, 1, 4, 4)).scalings
    columns = next(p for p in family.parts if p.side == "columns")
    assert columns.index.tolist() == [list(range(9 * c, 9 * c + 9)) for c in range(3)]
    assert columns.slabs(net[2].weight).shape == (3, 18)


def test_zero_channels_of_a_shortcut_belong_to_no_unit():
    def forward(net, x):
        h = net.a(x)
        return net.c(F.pad(h, (0, 3)) + net.b(h))

    net = Net(forward, a=nn.Linear(4, 5), b=nn.Linear(5, 8), c=nn.Linear(8, 2))
    sizes = sorted(f.units for f in symmetries(net, torch.randn(3, 4)).scalings)
    assert sizes == [3, 5]


def test_padding_tokens_do_not_lend_their_gradient():
    net = Net(
        lambda n, t: n.out(n.words(t).mean(1)),
        words=nn.Embedding(9, 4, padding_idx=0),
        out=nn.Linear(4, 2),
    )
    tokens = torch.tensor([[1, 2, 0], [3, 0, 0]])
    assert len(symmetries(net, tokens).scalings) == 1  # the row of zeros stays zero
    with torch.no_grad():
        net.words.weight[0] = 1.0
    assert symmetries(net, tokens).scalings == ()
    assert len(symmetries(net, tokens.clamp(min=1)).scalings) == 1


def test_weights_that_are_multiplied_first_are_not_followed():
    net = Net(
        lambda n, x: F.linear(x, n.a.weight.T @ n.b.weight), a=nn.Linear(3, 4), b=nn.Linear(5, 4)
    )
    found = symmetries(net, torch.randn(2, 5))
    assert found.scalings == ()
    assert any("multiplied by another weight" in f.why for f in found.fixed)


def test_dropout_keeps_units_apart_in_training_only():
    net = nn.Sequential(nn.Linear(4, 9), nn.Dropout(0.5), nn.Linear(9, 2))
    x = torch.randn(6, 4)
    (training,) = symmetries(net, x).scalings
    (evaluation,) = symmetries(net.eval(), x).scalings
    assert int(training.mask.sum()) < 81
    assert bool(evaluation.mask.all())


def test_what_cannot_be_followed_is_refused():
    frozen = nn.Linear(3, 2).requires_grad_(False)
    with pytest.raises(Refusal, match="none that need a gradient"):
        symmetries(frozen, torch.ones(1, 3))
    with pytest.raises(Refusal, match="must run on the batch"):
        symmetries(nn.Linear(3, 2), torch.ones(1, 4))


def test_units_of_a_relu_may_be_mixed_where_they_are_on_together():
    x = torch.randn(3, 4, generator=torch.Generator().manual_seed(5))
    net = nn.Sequential(nn.Linear(4, 12), nn.ReLU(), nn.Linear(12, 2))
    with torch.no_grad():
        on = net[0](x) > 0
    (family,) = symmetries(net, x).scalings
    alike = (on[:, :, None] == on[:, None]).all(0)
    assert 12 < int(alike.sum()) < 144
    assert torch.equal(family.mask, alike)


@pytest.mark.parametrize("pool", [nn.AvgPool2d(2), nn.AvgPool2d((4, 1)), nn.AdaptiveAvgPool2d(2)])
def test_averages_over_both_axes_of_an_image_keep_channels_apart(pool):
    net = nn.Sequential(nn.Conv2d(1, 3, 3, padding=1), pool, nn.Flatten(), nn.Linear(12, 2))
    (family,) = symmetries(net, torch.randn(2, 1, 4, 4)).scalings
    columns = next(p for p in family.parts if p.side == "columns")
    assert columns.index.tolist() == [list(range(4 * c, 4 * c + 4)) for c in range(3)]
    assert bool(family.mask.all())


def test_weights_that_are_not_trained_are_constants():
    net = nn.Sequential(nn.Linear(4, 5), nn.Linear(5, 3), nn.Linear(3, 2))
    assert len(symmetries(net, torch.randn(2, 4)).scalings) == 2
    net[1].requires_grad_(False)
    assert symmetries(net, torch.randn(2, 4)).scalings == ()
    net[1].requires_grad_(True)
    net[0].requires_grad_(False)
    (family,) = symmetries(net, torch.randn(2, 4)).scalings
    assert {p.tensor for p in family.parts} == {"1.weight", "1.bias", "2.weight"}
