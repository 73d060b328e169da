import pytest
import torch
from torch import nn
from torch.nn import functional as F

from sigmascope.theory.symmetry import symmetries
from sigmascope.theory.symmetry.operations import AVERAGES, MADE, MOVES, RULES
from tests.models_zoo import Net


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


def test_zero_channels_of_a_shortcut_belong_to_no_unit():
    def forward(net, x):
        h = net.a(x)
        return net.c(F.pad(h, (0, 3)) + net.b(h))

    net = Net(forward, a=nn.Linear(4, 5), b=nn.Linear(5, 8), c=nn.Linear(8, 2))
    sizes = sorted(f.units for f in symmetries(net, torch.randn(3, 4)).scalings)
    assert sizes == [3, 5]


def in_part(x):
    y = x.clone()
    y[:, :2].zero_()
    return y


def copied_in_part(x):
    y = torch.zeros_like(x)
    y[:, :2].add_(x[:, :2])
    return y


def held_beside(h, x):
    """The input, in memory that was zeros and of which the other half is scaled."""
    y = torch.zeros(len(x), 10)
    y.copy_(torch.cat([h, x], 1))
    return y[:, 5:]


@pytest.mark.parametrize(
    ("added", "units"),
    [
        (lambda h, x: torch.zeros_like(x), 5),
        (lambda h, x: torch.zeros_like(x) + torch.zeros_like(x), 5),
        (lambda h, x: torch.zeros_like(x) * x, 5),
        (lambda h, x: torch.zeros_like(x).add_(h), 5),
        (lambda h, x: x.clone().zero_(), 5),
        (lambda h, x: torch.zeros_like(x) + x, 0),
        (lambda h, x: x - torch.zeros_like(x), 0),
        (lambda h, x: torch.zeros_like(x).add_(x), 0),
        (lambda h, x: torch.zeros_like(x) + 1, 0),
        (lambda h, x: torch.cat([torch.zeros_like(x[:, 2:]), x[:, 3:]], 1), 0),
        (lambda h, x: torch.zeros_like(x) + in_part(x), 0),
        (lambda h, x: in_part(x), 0),
        (lambda h, x: copied_in_part(x), 0),
        (held_beside, 0),
    ],
)
def test_zeros_go_with_every_scale_until_something_is_added_to_them(added, units):
    def forward(net, x):
        h = net.a(x)
        return net.b(h + added(h, x))

    x = torch.randn(3, 5, generator=torch.Generator().manual_seed(0))
    x[:, 0] = 0.0  # an entry alone does not tell zeros
    net = Net(forward, a=nn.Linear(5, 5), b=nn.Linear(5, 2))
    assert sum(family.units for family in symmetries(net, x).scalings) == units


@pytest.mark.parametrize("pool", [
    nn.Upsample(scale_factor=2), nn.Upsample(scale_factor=2, mode="linear"),
    nn.ReflectionPad1d(1), nn.ReplicationPad1d(1), nn.AvgPool1d(2), nn.AdaptiveAvgPool1d(2),
], ids=str)  # fmt: skip
def test_averages_over_a_sequence_keep_channels_apart(pool):
    conv, x = nn.Conv1d(1, 3, 3, padding=1), torch.randn(2, 1, 4)
    width = pool(conv(x)).shape[2]
    net = nn.Sequential(conv, pool, nn.Flatten(), nn.Linear(3 * width, 2))
    (family,) = symmetries(net, x).scalings
    columns = next(p for p in family.parts if p.side == "columns")
    assert columns.index.flatten().tolist() == list(range(3 * width))
    assert len(columns.index) == 3


@pytest.mark.parametrize("pool", [nn.AvgPool2d(2), nn.AvgPool2d((4, 1)), nn.AdaptiveAvgPool2d(2)])
def test_averages_over_both_axes_of_an_image_keep_channels_apart(pool):
    net = nn.Sequential(nn.Conv2d(1, 3, 3, padding=1), pool, nn.Flatten(), nn.Linear(12, 2))
    (family,) = symmetries(net, torch.randn(2, 1, 4, 4)).scalings
    columns = next(p for p in family.parts if p.side == "columns")
    assert columns.index.tolist() == [list(range(4 * c, 4 * c + 4)) for c in range(3)]
    assert bool(family.mask.all())


def test_dropout_keeps_units_apart_in_training_only():
    net = nn.Sequential(nn.Linear(4, 9), nn.Dropout(0.5), nn.Linear(9, 2))
    x = torch.randn(6, 4)
    (training,) = symmetries(net, x).scalings
    (evaluation,) = symmetries(net.eval(), x).scalings
    assert int(training.mask.sum()) < 81
    assert bool(evaluation.mask.all())


SINCE = {"_fused_rms_norm": "2.9"}  # with torch.__version__, which compares itself by its numbers


@pytest.mark.parametrize("name", sorted({*RULES, *MOVES, *MADE}))
def test_every_name_is_one_of_the_dispatchers(name):
    if torch.__version__ < SINCE.get(name, "0"):
        pytest.skip(f"the operation is there since torch {SINCE[name]}")
    assert hasattr(torch.ops.aten, name)


def test_no_operation_has_two_rules():
    assert not set(RULES) & MOVES
    assert not (set(RULES) | MOVES) & MADE


@pytest.mark.parametrize(
    ("axes", "name"), [(axes, name) for axes, many in AVERAGES.items() for name in many]
)
def test_averages_act_on_as_many_axes_as_their_name_says(axes, name):
    assert name.endswith(f"{axes}d")


@pytest.mark.parametrize("name", sorted(RULES))
def test_a_rule_is_found_whether_in_place_or_not(name):
    """They are looked up without the underscore at the end."""
    assert not name.endswith("_")
