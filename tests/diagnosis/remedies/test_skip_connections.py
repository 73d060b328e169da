"""Skip connections go around what keeps its shape; branches start at zero and can still learn."""

import pytest
import torch
from torch import nn
from torch.nn import functional as F

from sigmascope import sources
from sigmascope.diagnosis.remedies import (
    Inapplicable,
    RescaleResidual,
    SkipConnections,
    ZeroBranches,
)
from sigmascope.models import networks
from sigmascope.models.samples import prepared
from sigmascope.models.structure import branches
from tests.models_zoo import MODELS, Net, call

RESIDUAL = ["transformer-pre-norm", "vision-transformer", "small-resnet"]


def stack(depth, width=16):
    torch.default_generator.manual_seed(0)
    layers = [m for _ in range(depth) for m in (nn.Linear(width, width), nn.ReLU())]
    return nn.Sequential(nn.Linear(8, width), nn.ReLU(), *layers, nn.Linear(width, 3))


def test_skips_go_around_layer_and_activation():
    model, x = stack(4), torch.randn(9, 8)
    new = SkipConnections().apply(model, x)
    found = branches(new, x)
    assert len(found) == 4
    h = F.relu(model[0](x))
    for i in range(4):
        h = h + 0.5 * F.relu(model[2 + 2 * i](h))
    assert torch.allclose(new(x), model[-1](h), atol=1e-6)


def test_skips_go_around_modules_of_the_user():
    g, x = torch.Generator().manual_seed(0), torch.randn(9, 16)
    model = networks.mlp(inputs=16, outputs=3, depth=5, width=16, generator=g)
    assert len(branches(SkipConnections().apply(model, x), x)) == 5


@pytest.mark.parametrize(
    ("remedy", "model", "words"),
    [
        (SkipConnections, nn.Sequential(nn.Linear(8, 4), nn.ReLU(), nn.Linear(4, 3)), "got none"),
        (SkipConnections, Net(lambda self, x: x + self.a(x), a=nn.Linear(8, 8)), "already"),
        (
            ZeroBranches,
            Net(lambda self, x: x + F.relu(self.a(x)), a=nn.Linear(8, 8)),
            "would stay at zero",
        ),
    ],
)
def test_no_skip_or_zero_where_none_fits(remedy, model, words):
    with pytest.raises(Inapplicable, match=words):
        remedy().apply(model, torch.randn(9, 8))


@pytest.mark.parametrize("name", RESIDUAL)
def test_zeroed_branches_add_nothing_and_get_gradients(name):
    model, batch = MODELS[name]()
    batch = prepared(model, batch)
    new = ZeroBranches().apply(model, batch)
    assert [b.strength for b in branches(new, batch)] == [0.0] * len(branches(model, batch))
    out = call(new, batch)
    (out - torch.randn_like(out)).square().sum().backward()
    for name in {n for b in branches(model, batch) for n in b.scales if n.endswith("weight")}:
        assert new.get_parameter(name).grad.abs().sum() > 0, name


@pytest.mark.slow
def test_skips_let_a_deep_network_learn():
    from sigmascope.diagnosis.trainability import trainability

    data = sources.open_data("digits", samples=64)
    g = torch.Generator().manual_seed(0)
    model = networks.mlp(inputs=64, outputs=10, depth=24, width=32, generator=g)
    options = {"targets": data.targets, "loss": F.cross_entropy}
    new = SkipConnections().apply(model, data.inputs)
    assert trainability(model, data.inputs, **options).high < 0.2
    assert trainability(new, data.inputs, **options).low > 0.9


def test_a_module_that_is_called_twice_ends_no_block():
    """Its shapes are those of no one call, so nothing can be told of a block that it ends."""
    relu = nn.ReLU()
    torch.default_generator.manual_seed(0)
    model = nn.Sequential(nn.Linear(8, 8), relu, nn.Linear(8, 8), relu, nn.Linear(8, 3))
    new = SkipConnections().apply(model, torch.randn(9, 8))
    kinds = "Linear ReLU SkipConnection ReLU Linear"
    assert " ".join(type(part).__name__ for part in new) == kinds


def test_what_was_in_evaluation_mode_inside_a_block_stays_in_it():
    block = lambda: nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4), nn.ReLU())
    net = nn.Sequential(block(), block(), nn.Linear(4, 4), nn.BatchNorm1d(4), nn.Linear(4, 2))
    for norm in (net[0][1], net[3]):
        norm.eval()  # a frozen normaliser, in a model in training
    new = SkipConnections().apply(net, torch.randn(9, 4))
    norms = [m.training for m in new.modules() if isinstance(m, nn.BatchNorm1d)]
    assert norms == [False, True, False]
    assert new.training


@pytest.mark.parametrize(
    "name", ["inplace-residual", "transformer-pre-norm", "vision-transformer", "small-resnet"]
)
def test_rescaled_branches_have_one_over_the_root_of_their_number(name):
    model, batch = MODELS[name]()
    batch = prepared(model, batch)
    before, after = branches(model, batch), branches(RescaleResidual().apply(model, batch), batch)
    assert after[0].strength == pytest.approx(before[0].strength / len(before) ** 0.5, rel=1e-3)


def test_residual_branches_of_images_are_scaled():
    g = torch.Generator().manual_seed(0)
    model = networks.resnet(inputs=(1, 8, 8), outputs=3, depth=8, width=4, generator=g)
    new = RescaleResidual().apply(model, torch.randn(4, 1, 8, 8, generator=g))
    blocks = [m for m in model.modules() if isinstance(m, networks.ResidualBlock)]
    scaled = [m for m in new.modules() if isinstance(m, networks.ResidualBlock)]
    for old, now in zip(blocks, scaled, strict=True):
        parts = [p for p in old.second.children() if next(p.parameters(), None) is not None]
        after = [p for p in now.second.children() if next(p.parameters(), None) is not None]
        assert torch.allclose(after[-1].weight, parts[-1].weight / len(blocks) ** 0.5)
